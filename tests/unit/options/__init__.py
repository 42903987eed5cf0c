"""Unit tests of the options: every variable that an inventory may set."""
