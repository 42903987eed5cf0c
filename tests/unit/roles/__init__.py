"""The roles: what they say of themselves, and which of them are due."""
