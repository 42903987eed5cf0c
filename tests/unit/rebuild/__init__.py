"""Tests of the reinstall and rebuild of a node."""
