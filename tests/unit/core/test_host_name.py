"""What may be written where a host is named."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import HostName, is_host_name

GOOD = ["n1", "N1", "gpu-01.lab.example", "3com", "gpu_01", "a" * 63, ".".join(["a" * 63] * 3), "482901374650", "ALL"]
BAD = [
    "n1\nEpilog=/tmp/x",
    "n1\n",
    "n1\r",
    "n1 Foo=bar",
    "n1\tx",
    "n1,n2",
    "n[1-100]",
    "n1#",
    "n1\\",
    'n1"',
    "n1'",
    "n1;reboot",
    "n1=x",
    "n1/..",
    "../n1",
    "..",
    ".n1",
    "n1.",
    "n1..lab",
    "-n1",
    "n1-",
    "n1-.lab",
    "_gateway",
    "n\u0661",
    "nöde",
    "n\u200b1",
    "n\x001",
    "{{ n1 }}",
    "%n1",
    "*",
    "(none)",
    "",
    " n1",
    "a" * 64,
    ".".join(["a" * 63] * 4),
    "10.0.0.1",
    "10.1",
    "0x7f.1",
    "2130706433",
    "fd00::1",
    None,
    7,
    ["n1"],
]


@pytest.mark.parametrize("text", GOOD)
def test_names_of_hosts_are_taken(text):
    assert is_host_name(text)
    assert HostName(text) == text
    assert HostName(text).short == text.partition(".")[0]


@pytest.mark.parametrize("text", BAD)
def test_whatever_else_a_machine_calls_itself_is_no_name(text):
    assert not is_host_name(text)
    with pytest.raises(ValueError, match="is no name"):
        HostName(text)


def test_a_short_name_is_one_too():
    with pytest.raises(ValueError, match="is no name"):
        assert HostName("10.lab").short
