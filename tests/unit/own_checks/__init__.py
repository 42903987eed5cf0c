"""The checks of a lab's own."""
