"""Tests of the live output."""
