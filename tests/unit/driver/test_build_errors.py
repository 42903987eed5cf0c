"""What is known of the errors of compilers, told with the refusal of a build that failed."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.tool_messages import MESSAGES
from ansible_collections.gpulab.node.plugins.module_utils.driver import dkms
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

# As GCC words them where the language is C.UTF-8
REAL = {
    "pci-resize": "nv-pci.c:237:9: error: too few arguments to function \u2018pci_resize_resource\u2019",
    "vm-flags": "nv-mm.h:324:9: error: \u2018struct vm_area_struct\u2019 has no member named \u2018__vm_flags\u2019",
    "in-irq": "nv-linux.h:9:9: error: implicit declaration of function \u2018in_irq\u2019; did you mean ...",
    "strncpy": "os-interface.c:753:5: error: implicit declaration of function \u2018strncpy\u2019",
    "follow-pfn": "os-mlock.c:30:9: error: implicit declaration of function \u2018follow_pfn\u2019",
    "older-compiler": "gcc: error: unrecognized command-line option \u2018-ftrivial-auto-var-init=zero\u2019",
    "missing-tool": "/bin/sh: line 1: g++: command not found",
    "newer-headers": "scripts/basic/fixdep: /lib/libc.so.6: version \u2018GLIBC_2.38\u2019 not found (required by x)",
    "newer-kbuild": "build/nvidia.mod.c:10:10: fatal error: asm/orc_header.h: No such file or directory",
    "out-of-memory": "gcc: fatal error: Killed signal terminated program cc1",
    "out-of-space": "ccZ.s: fatal error: ccZ.s: No space left on device",
}


KNOWN = {message.id: message for message in MESSAGES if message.tool == "build"}


def failed(error):
    names = {"module": "nvidia", "version": "570.1", "kernel": "7.2"}
    return refuse("D001", **names, log="/log", **dkms.told(error))


@pytest.mark.parametrize("name", REAL)
def test_a_known_error_is_explained_with_its_remedy_in_place_of_another_driver(name):
    told = failed(REAL[name])
    assert told.code == "D001"
    assert told.cause.endswith(f"Known cause: {KNOWN[name].cause}.".replace("{tool}", "g++"))
    assert told.remedy == f"{KNOWN[name].remedy}. See /log on the node.".replace("{tool}", "g++")
    assert dkms.ADVICE not in told.remedy


@pytest.mark.parametrize(
    ("error", "tool"),
    [("/bin/sh: 1: gcc-12: not found", "gcc-12"), ("make[1]: bc: No such file or directory", "bc")],
)
def test_the_tool_that_is_missing_is_named(error, tool):
    told = failed(error)
    assert f"Known cause: the node does not have the program {tool}." in told.cause
    assert told.remedy.startswith(f"Install {tool} ")


def test_an_older_gcc_words_it_with_a_space():
    assert "/proc/version" in failed("gcc: error: unrecognized command line option '-mharden-sls=all'").remedy


def test_what_is_not_known_is_told_as_it_is_and_another_driver_may_help():
    unknown = failed("nv.c:1:1: error: expected identifier")
    assert "Known cause" not in unknown.cause
    assert unknown.remedy.startswith(dkms.ADVICE)


@pytest.mark.parametrize(("name", "of_node"), [("out-of-space", True), ("older-compiler", True), ("strncpy", False)])
def test_a_node_that_is_to_be_mended_is_told_from_a_driver_that_does_not_fit(name, of_node):
    assert dkms.is_of_node(REAL[name]) is of_node
    assert not dkms.is_of_node("nv.c:1:1: error: expected identifier")
