"""The hub: whether a node can have one."""
