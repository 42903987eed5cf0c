"""Tests of packages by apt and dnf."""
