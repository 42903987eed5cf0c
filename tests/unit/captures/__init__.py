"""Tests of captures on the controller."""
