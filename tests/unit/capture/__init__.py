"""What a capture reads of a node."""
