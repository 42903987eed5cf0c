"""Tests of the fence."""
