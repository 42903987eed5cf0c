"""Tests of what every other part uses: files, records, refusals, long steps."""
