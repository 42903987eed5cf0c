"""Tests of the settings of GPUs."""
