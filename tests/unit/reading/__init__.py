"""Tests of how a node is read."""
