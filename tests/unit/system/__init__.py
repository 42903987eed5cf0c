"""Tests of the system around the GPUs: kernel, names, firewall, groups."""
