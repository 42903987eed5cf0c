"""The refusals stand in the order of their families and numbers, where people look for them."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import CODES

FAMILIES = "HIPDCESVRGF"


def test_codes_stand_in_the_order_of_families_and_numbers():
    assert list(CODES) == sorted(CODES, key=lambda code: (FAMILIES.index(code[0]), code))
