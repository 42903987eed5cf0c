"""Tests of the receipts that roles leave on a node."""
