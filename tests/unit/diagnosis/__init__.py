"""Tests of the diagnosis: readers on the node, rules on the controller."""
