"""Tests of people's accounts."""
