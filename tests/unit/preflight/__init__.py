"""The preflight: each bound at its edge, each guard, the action and its role."""
