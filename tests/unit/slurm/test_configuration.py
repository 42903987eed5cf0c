"""A slurm.conf is read as Slurm reads it: 22.05.8 and 24.11.5 say the same of a text like this one (scontrol show)."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.slurm.configuration import read

TEXT = """\
# a comment that ends with a backslash goes on with nothing \\
ClusterName=x
grestypes = "gpu"   # MessageTimeout=99
MAXJOBCOUNT=77
SlurmctldParameters=enable_configless,\\
idle_on_node_suspend
SchedulerParameters="bf_window=10,bf_interval=\\#x"
include more.conf
MessageTimeout=\\\x20\x20
11
#Include none.conf
KillWait = 33
Include %c.conf
nodename=default state=future cpus=32 \\
 TmpDisk=5
NodeName=theirs NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
partitionname=default AllowAccounts=phys
PartitionName=all Nodes=ALL Default=YES
ReturnToService=1
ReturnToService=2
"""
FILES = {
    "/etc/slurm/more.conf": "SlurmdTimeout=222\nNodename=DEFAULT State=UNKNOWN Weight=7\n",
    "/etc/slurm/x.conf": "InactiveLimit=120\nInclude /srv/more/wait.conf",
    "/srv/more/wait.conf": "WaitTime=5",
}


def test_it_is_read_as_slurm_reads_it():
    found = read(TEXT, FILES)
    assert found.settings == {
        "clustername": "x",
        "grestypes": "gpu",
        "maxjobcount": "77",
        "slurmctldparameters": "enable_configless,idle_on_node_suspend",
        "schedulerparameters": "bf_window=10,bf_interval=#x",
        "slurmdtimeout": "222",
        "messagetimeout": "11",
        "killwait": "33",
        "inactivelimit": "120",
        "waittime": "5",
        "returntoservice": "2",
    }
    assert found.node_defaults == {"state": "future", "weight": "7", "cpus": "32", "tmpdisk": "5"}
    assert found.partition_defaults == {"allowaccounts": "phys"}
    assert found.partitions == {"all": {"allowaccounts": "phys", "nodes": "ALL", "default": "YES"}}


@pytest.mark.parametrize(
    ("text", "grestypes"),
    [
        ("GresTypes=gpu SlurmctldPort=6817", "gpu"),
        ("SlurmctldPort=6817 GresTypes=gpu", "gpu"),
        ("GresTypes=gpu,mps#x", "gpu,mps"),
        ("GresTypes=a\\\\\nGresTypes=gpu", "gpu"),  # two backslashes are one, and no end of a line
        ("GresTypes=a\\#b\n", "a#b"),
        ("NodeName=n1 GresTypes=gpu", None),
        ("# GresTypes=gpu", None),
        ("GresTypes=", ""),
        ("Include self", None),
        ("", None),
    ],
)
def test_odd_lines(text, grestypes):
    assert read(text, {"/etc/slurm/self": "Include self\nInclude self"}).settings.get("grestypes") == grestypes


def test_a_default_counts_for_later_lines_only():
    found = read("PartitionName=a Nodes=ALL\nPartitionName=DEFAULT Nodes=ALL\nPartitionName=b\n", {})
    assert found.partitions == {"a": {"nodes": "ALL"}, "b": {"nodes": "ALL"}}
