"""The plan: catalog, resolver and action."""
