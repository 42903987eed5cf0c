"""Tests of container engines' settings."""
