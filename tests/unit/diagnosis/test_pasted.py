"""Which finding stands first of a pasted text, and which texts say nothing."""

from pathlib import Path

import pytest
import yaml
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import asked
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from ansible_collections.gpulab.node.plugins.plugin_utils.diagnosis import diagnose, model, pasted

from unit.checks import nodes

from . import cases, threads

KNOWN = catalog.load()
CASES = yaml.safe_load(Path(__file__).with_name("pasted.yml").read_text(encoding="utf-8"))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
FOR_MORE = "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/group__CUDART__TYPES.html for more."
ERRNO_97 = "[c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - not supported)."
PEER_CLOSED = "NCCL WARN socketProgress: Connection closed by remote peer node1<40116>"
TENSORRT = "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file"


def ids(text):
    return [one.id for one in pasted.errors(KNOWN, text)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:30])
def test_what_stands_first_on_a_node_without_internet(case):
    told = [one.id for one in threads.findings(case["text"]) if one.cost]
    assert told[:1] == ([f"error-{case['first']}"] if case["first"] else [])


def test_a_cause_stands_before_what_follows_wherever_it_is():
    wanted = ["error-torch-out-of-memory", "error-nccl-peer-closed"]
    assert ids(f"{PEER_CLOSED}\n{OOM}") == ids(f"{OOM}\n{PEER_CLOSED}") == wanted


def test_what_is_harmless_stands_last_and_costs_nothing():
    found = list(pasted.errors(KNOWN, f"{TENSORRT}\n{PEER_CLOSED}\n{OOM}"))
    assert [one.id for one in found][-1] == "error-tf-tensorrt"
    assert found[-1].cost == 0


def test_what_is_harmless_stands_behind_what_the_node_shows():
    found = cases.evidence(facts := nodes.healthy("h100x8"), load=dict.fromkeys(("1m", "5m", "15m"), 500.0))
    told = diagnose.findings(cases.case(facts, found, symptom="slow", error=TENSORRT))
    assert told[-1].id == "error-tf-tensorrt"


def test_a_retry_that_did_not_help_is_told():
    text = f"WARNING: CUDA out of memory. Tried to allocate 2.00 GiB. Retrying with batch size 8\nTraceback:\n{OOM}"
    assert ids(text) == ["error-torch-out-of-memory"]


def test_lines_with_an_xid_are_answered_as_the_proof_does():
    first, second = pasted.errors(
        KNOWN,
        "NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149\n"
        "NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT",
    )
    assert (first.id, second.id) == ("error-xid-149", "error-xid-45")
    assert first.remedy in REMEDIES.values()
    assert first.cost > second.cost


def test_an_xid_that_is_only_named_as_the_cause_is_answered():
    text = "NVRM: Xid (PCI:0000:dc:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid 149"
    assert ids(text)[0] == "error-xid-149"


@pytest.mark.parametrize("text", [f"{OOM} (https://pytorch.org/docs)", f"{ILLEGAL}\n{FOR_MORE}", PEER_CLOSED, ERRNO_97])
def test_what_is_only_mentioned_was_not_needed(text):
    assert asked.addresses(text) == []
    assert asked.names(text) == []


def test_only_what_was_measured_has_a_cost():
    """The place of a text is no measurement, and a page must not show it as one."""
    text = diagnose.findings(cases.case(nodes.healthy("h100x8"), cases.evidence(nodes.healthy("h100x8")), error=OOM))
    assert [model.as_record(one).cost for one in text] == [None]


INIT = "NVRM: GPU 0000:07:00.0: RmInitAdapter failed! (0x62:0x65:1792)"
OLDER = "/var/lib/dkms/nvidia/396.54/build/nvidia/nv.c:19:11: error: implicit declaration of function 'f'"


def test_lines_of_the_kernel_are_answered_as_the_proof_does_and_only_once():
    text = "NVRM: kgspBootstrap_TU102: unexpected WPR2 already up, cannot proceed with booting GSP"
    (found,) = pasted.errors(KNOWN, text)
    assert found.id == "error-kernel-gsp-left-over"
    assert found.remedy in REMEDIES.values()


def test_that_a_gpu_did_not_start_follows_from_what_explains_it():
    explains = "NVRM: GPU 0000:07:00.0: failed to wait for GFW boot complete: 0x65"
    assert ids(f"{INIT}\n{explains}") == ["error-kernel-board-boot", "error-kernel-init-failed"]
    assert ids(INIT) == ["error-kernel-init-failed"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (
            " drv : Depends: libgl (= 565) but it is not installable\nE: you have held broken packages.",
            "not-installable",
        ),
        ("Error:\n Problem: package x-1.el9.x86_64 requires y, but none of the providers can be installed", "unmet"),
        (OLDER, "older-driver"),
        ("Error! Bad return status for module build on kernel: 6.1 (x86_64)\nConsult /var/lib/dkms/x", "dkms-build"),
    ],
)
def test_what_tools_say_is_answered_from_their_own_table(text, first):
    (found,) = pasted.errors(KNOWN, text)
    assert found.id.endswith(first)


def test_the_words_of_a_tool_in_another_program_are_not_the_tools():
    assert ids("curl: (7) Connection refused, 404 Not Found, No space left on device") == []
    assert ids(OLDER.replace("/var/lib/dkms/nvidia/396.54/build/nvidia/nv.c", "/src/flash/kernel.cpp")) == []


def test_a_script_that_failed_stands_behind_what_it_said():
    script = "dpkg: error processing package n (--configure):\n installed n package post-installation script subprocess"
    told = ids(f"{script} returned error exit status 10\n{OLDER}")
    assert told == ["error-older-driver", "error-apt-script"]


def test_what_a_tools_table_answers_is_not_answered_twice():
    text = "E: Write error - write (28: No space left on device)\ndpkg: error: failed to write: No space left on device"
    assert ids(text) == ["error-apt-space"]


def test_a_row_of_a_table_is_a_page_and_no_error():
    assert ids(f"| `{OOM}` | too little memory | a smaller batch |") == []


@pytest.mark.parametrize("escaped", [OOM.replace("CUDA", "\x1b[31mCUDA"), f'"Traceback\\n  File x\\n{OOM}\\n"'])
def test_a_log_that_was_coloured_or_escaped_is_read_as_its_program_wrote_it(escaped):
    assert ids(escaped) == ["error-torch-out-of-memory"]


def test_escaped_quotes_are_quotes():
    assert ids('desc = no runtime for \\\\\\"nvidia\\\\\\" is configured') == ["error-kubernetes-runtime"]
