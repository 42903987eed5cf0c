"""Tests of the readers of facts."""
