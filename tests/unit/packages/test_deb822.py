"""Debian's records."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages.deb822 import stanzas


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("", [{}]),
        ("Types: deb\nsigned-by:\n a\n .\n b\n", [{"Types": "deb", "Signed-By": "\na\n.\nb"}]),
        ("# said\nPackage: a\n# said\nPin: b\n \n\nPackage: c", [{"Package": "a", "Pin": "b"}, {"Package": "c"}]),
        (" goes on from nothing\nno field\n", [{}]),
    ],
)
def test_records(text, records):
    assert list(stanzas(text)) == records
