"""What shim revokes: the firmware asks for generations, and the boot loaders have theirs."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.installer import sbat

from . import pe

# As firmware of 2024 has it, and as shim 16.1 sets it when asked for the latest.
LEVEL = "sbat,1,2024040900\nshim,4\ngrub,4\ngrub.peimage,2\n"
HAS = {"sbat": 1, "grub": 3, "grub.debian": 4}


def test_the_components_of_a_boot_loader_are_read():
    assert sbat.of_loader(pe.loader()) == HAS


@pytest.mark.parametrize("content", [b"", b"MZ", pe.loader()[:300], pe.loader(name=b".data")])
def test_a_file_without_them_is_none(content):
    with pytest.raises(ValueError, match=r"\.sbat|buffer"):
        sbat.of_loader(content)


@pytest.mark.parametrize(
    "level",
    [None, "", "sbat,1,2021030218\n", "grub,3\ngrub.debian,4\n", "shim,9\ngrub.ubuntu,9\n", "grub,\nnothing\n\xff,\n"],
)
def test_a_boot_loader_of_the_generation_that_is_asked_for_starts(level):
    sbat.check("node07", level, "/grub", HAS, "Wait")


def test_an_older_one_is_refused():
    with pytest.raises(Refusal) as refusal:
        sbat.check("node07", LEVEL + "grub.debian,5\n", "/grub", HAS, "Wait")
    assert refusal.value.code == "R038"
    assert "grub 3 (4 is asked for), grub.debian 4 (5 is asked for)" in refusal.value.cause
