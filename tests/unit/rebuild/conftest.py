"""What tests of a rebuild share with those of captures: the key that signs them is not this user's own."""

from unit.captures.conftest import signing_key

__all__ = ["signing_key"]
