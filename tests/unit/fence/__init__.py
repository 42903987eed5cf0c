"""Tiers of storage: the plan, and what is read of a node."""
