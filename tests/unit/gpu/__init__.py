"""Tests of the run on a real GPU, and of its recordings."""
