"""The check of the inventory: bad variables, good ones, groups and addresses, the action."""
