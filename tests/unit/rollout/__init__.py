"""Tests of the rollout: its order, its state, its report."""
