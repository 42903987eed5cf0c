"""Tests of the acceptance: its ladder, its state, its certificate."""
