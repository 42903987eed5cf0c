"""The files of a cluster, from the facts of its nodes."""

import re
from dataclasses import replace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.host_name import HostName
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, joining
from ansible_collections.gpulab.node.plugins.module_utils.slurm.configuration import Configuration
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms

from unit.machines import PCI_GPU, machine

ONE_SOCKET = "".join(f"processor\t: {n}\nphysical id\t: 0\nsiblings\t: 2\ncpu cores\t: 1\n" for n in (0, 1))
CLUSTER = cluster.SlurmCluster("lab", "head", "10.0.0.1", types=["training_servers", "workstations"])


def facts(name="node1", gpus=2, *, listed=None, nvlink=(), mig=()):
    """Return a node's facts: nvlink and mig name pairs of GPUs and GPUs."""
    read = [
        {"index": n, "minor": n, "name": "NVIDIA A100-PCIE-40GB", "mig": {"enabled": n in mig}}
        for n in range(gpus if listed is None else listed)
    ]
    pairs = [(one, other) for one in range(len(read)) for other in range(one + 1, len(read))]
    return machine(
        {
            "system": {"hostname": name, "memory_mib": 100_000, "cpu_cores": 8},
            "pci": {"gpus": [PCI_GPU] * gpus},
            "nvml": {
                "state": "ok",
                "gpus": read,
                "peers": [
                    {
                        "gpus": list(pair),
                        "nvlink": "ok" if pair in nvlink else "not_supported",
                        "read": "ok",
                        "write": "ok",
                    }
                    for pair in pairs
                ],
            },
        }
    )


def node(name="node1", types=("training_servers",), cpuinfo="", **about):
    return cluster.node([HostName(name)], name, facts(name, **about), cpuinfo, "10.0.0.7", types, 5)


def texts(*nodes, about=CLUSTER):
    return cluster.texts(about, nodes)


def lines(text, name):
    return [line for line in text.splitlines() if line.startswith(f"{name}=")]


def test_a_node_is_described_by_its_facts():
    assert node().line == (
        "NodeName=node1 NodeAddr=10.0.0.7 CPUs=8 RealMemory=95000 Gres=gpu:a100-pcie-40gb:2"
        " Feature=training_servers # node1"
    )
    assert node().gres == (
        "NodeName=node1 AutoDetect=off Name=gpu Type=a100-pcie-40gb File=/dev/nvidia0 # node1",
        "NodeName=node1 AutoDetect=off Name=gpu Type=a100-pcie-40gb File=/dev/nvidia1 # node1",
    )


def test_sockets_cores_and_threads_are_told_where_they_add_up():
    assert cluster.topology(ONE_SOCKET) == (1, 1, 2)
    assert "Sockets=1 CoresPerSocket=1 ThreadsPerCore=2" in node(cpuinfo=ONE_SOCKET).line
    assert cluster.topology(ONE_SOCKET.replace("siblings\t: 2", "siblings\t: 4")) is None
    assert cluster.topology(ONE_SOCKET.replace("siblings\t: 2", "siblings\t: 0")) is None
    assert cluster.topology("processor\t: 0\n") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2-16gb"),
        ("NVIDIA", "gpu"),
    ],
)
def test_a_type_is_short_and_has_no_character_that_slurm_takes_for_its_own(name, expected):
    assert cluster.kind(name) == expected


def test_nvlinks_are_told_per_gpu():
    told = node(gpus=3, nvlink=[(0, 2)]).gres
    assert [re.findall(r"Links=(\S+)", line) for line in told] == [["-1,0,1"], [], ["1,0,-1"]]


def test_a_controller_that_is_no_gpu_node_has_none():
    assert "Gres" not in node(gpus=0).line
    assert node(gpus=0).gres == ()


@pytest.mark.parametrize(
    ("about", "code"), [({"gpus": 2, "listed": 1}, "F033"), ({"gpus": 2, "listed": 0}, "F033"), ({"mig": [1]}, "F034")]
)
def test_a_node_whose_gpus_cannot_be_told_is_refused(about, code):
    with pytest.raises(Refusal) as refused:
        node(**about)
    assert refused.value.code == code


def test_a_driver_that_does_not_answer_has_no_gpus():
    read = facts()
    read["nvml"]["state"] = "unresponsive"
    with pytest.raises(Refusal) as refused:
        cluster.node([HostName("node1")], "node1", read, "", None, [], 5)
    assert refused.value.code == "F033"


def test_each_host_type_of_the_nodes_has_a_partition():
    text = texts(node(), node("node2", types=["workstations"]))[cluster.CONFIGURATION]
    assert lines(text, "NodeSet") == [
        "NodeSet=training_servers Feature=training_servers",
        "NodeSet=workstations Feature=workstations",
    ]
    assert [line.split()[0] for line in lines(text, "PartitionName")] == [
        "PartitionName=gpu",
        "PartitionName=training_servers",
        "PartitionName=workstations",
    ]
    assert "Default=YES" in lines(text, "PartitionName")[0]
    assert "workstations" not in texts(node())[cluster.CONFIGURATION]


def test_jobs_end_in_time_where_nobody_says_otherwise():
    limited = replace(CLUSTER, time="1-00:00:00", limit="7-00:00:00")
    both = (
        cluster.texts(limited, [node()])[cluster.CONFIGURATION],
        joining.joined(limited, [node()], "", "", Configuration())[joining.JOINED],
    )
    found = [line for text in both for line in lines(text, "PartitionName")]
    assert len(found) == 3
    assert all(" DefaultTime=1-00:00:00 MaxTime=7-00:00:00 " in line for line in found)
    assert all("DefaultTime" not in line for line in lines(texts(node())[cluster.CONFIGURATION], "PartitionName"))


def test_jobs_see_their_own_gpus_only_and_nodes_ask_the_controller():
    files = texts(node())
    assert "ConstrainDevices=yes" in files[cluster.CGROUP].splitlines()
    settings = files[cluster.CONFIGURATION].splitlines()
    assert {"SlurmctldParameters=enable_configless", "AuthType=auth/munge", "GresTypes=gpu"} < set(settings)
    assert "SlurmctldHost=head(10.0.0.1)" in settings


def test_a_job_whose_prolog_failed_waits_for_another_node_and_not_for_somebody():
    settings = texts(node())[cluster.CONFIGURATION].splitlines()
    assert "SchedulerParameters=nohold_on_prolog_fail" in settings


def test_a_job_that_asks_for_no_memory_gets_a_share():
    """The smallest of the nodes decides: the setting is the cluster's. Without it one job would take a node whole."""
    small = cluster.Node("b", "b", "NodeName=b Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=16000 # b", ())
    assert "DefMemPerCPU=1000" in texts(node(), small)[cluster.CONFIGURATION].splitlines()


def test_accounting_is_asked_for_where_it_is():
    assert "AccountingStorage" not in texts(node())[cluster.CONFIGURATION]
    about = cluster.SlurmCluster("lab", "head", "10.0.0.1", accounting=True)
    assert "AccountingStorageHost=10.0.0.1" in texts(node(), about=about)[cluster.CONFIGURATION].splitlines()


def test_with_accounts_slurm_takes_jobs_from_nobody_else_and_each_partition_has_its_limit():
    about = replace(
        CLUSTER, accounting=True, accounts=True, interactive={"gpus": 1, "time": "08:00:00"}, private=True, time="1-0"
    )
    text = texts(node(), about=about)[cluster.CONFIGURATION]
    expected = {"AccountingStorageEnforce=associations,limits,qos", "EnforcePartLimits=ALL", "PrivateData=jobs,usage"}
    assert expected < set(text.splitlines())
    assert [re.findall(r"(?:Name|QOS|DefaultTime|MaxTime)=(\S+)", line) for line in lines(text, "PartitionName")] == [
        ["gpu", "gpulab", "1-0", "INFINITE"],
        ["training_servers", "gpulab", "1-0", "INFINITE"],
        ["interactive", "gpulab-interactive", "08:00:00", "08:00:00"],
    ]
    assert not re.search("QOS|Enforce|PrivateData|Priority|interactive", texts(node())[cluster.CONFIGURATION])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"accounts": True}, "slurm_accounts needs slurm_accounting: true"),
        ({"gpus_per_user": 2, "accounting": True}, "slurm_gpus_per_user needs slurm_accounts: true"),
        ({"interactive": {"gpus": 1}}, "slurm_interactive needs slurm_accounts: true"),
    ],
)
def test_a_limit_that_nothing_would_hold_is_refused(settings, words):
    with pytest.raises(Refusal, match=rf"GPULAB-F050 .*{words}"):
        cluster.check("head", replace(CLUSTER, **settings), join=False)


def test_a_cluster_of_somebody_elses_keeps_its_accounts():
    cluster.check("head", replace(CLUSTER, accounting=True, accounts=True), join=False)
    with pytest.raises(Refusal, match=r"GPULAB-F050 .*slurm_accounts needs a cluster of gpulab's own"):
        cluster.check("head", replace(CLUSTER, accounting=True, accounts=True), join=True)


def test_further_settings_come_last_and_count():
    about = cluster.SlurmCluster("lab", "head", "10.0.0.1", further={"MaxJobCount": 5, "ReturnToService": 2})
    settings = texts(node(), about=about)[cluster.CONFIGURATION].splitlines()
    assert "MaxJobCount=5" in settings
    assert [line for line in settings if line.startswith("ReturnToService")] == ["ReturnToService=2"]


def test_a_node_that_is_not_part_of_a_run_keeps_its_lines():
    former = texts(node(), node("node2", gpus=1))
    again = cluster.merged(
        [node("node3")], former[cluster.CONFIGURATION], former[cluster.GRES], ["node1", "node2", "node3"]
    )
    assert [one.hostname for one in again] == ["node1", "node2", "node3"]
    assert again[:2] == [node(), node("node2", gpus=1)]


def test_a_node_that_left_loses_its_lines_and_one_of_the_run_gets_new_ones():
    former = texts(node(), node("node2"))
    again = cluster.merged([node(gpus=1)], former[cluster.CONFIGURATION], former[cluster.GRES], ["node1"])
    assert again == [node(gpus=1)]


def test_two_nodes_of_one_hostname_are_refused():
    names = [HostName("second"), HostName("NODE1")]
    one, other = node("node1"), cluster.node(names, "second", facts("NODE1"), "", None, [], 5)
    with pytest.raises(Refusal) as refused:
        cluster.merged([one, other], "", "", [])
    assert refused.value.code == "F039"


@pytest.mark.parametrize(
    ("hostname", "code"),
    [
        ("node1\nEpilog=/tmp/x", "H226"),
        ("node1 Foo=bar", "H226"),
        ("node1,node2", "H226"),
        ("node[1-100]", "H226"),
        ("node1#", "H226"),
        ("node1\\", "H226"),
        ("DEFAULT", "F046"),
        ("default.lab", "F046"),
        ("ALL", "F046"),
        ("node2", "F045"),
        ("localhost", "F045"),
        ("node12", "F045"),
    ],
)
def test_a_hostname_that_would_be_more_than_the_nodes_own_name_is_refused(hostname, code):
    """slurm.conf is the controller's, and each node gets it: a hostname of one would be a line for all."""
    with pytest.raises(Refusal) as refused:
        cluster.node([HostName("node1")], "node1", facts(hostname), "", None, [], 5)
    assert refused.value.code == code
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("hostname", ["node1", "Node1", "gpu7.lab"])
def test_a_node_is_named_as_slurmd_asks_for_it_where_the_inventory_knows_the_name(hostname):
    names = [HostName("node1"), HostName("gpu7")]
    told = cluster.node(names, "node1", facts(hostname), "", None, [], 5)
    assert told.hostname == hostname.partition(".")[0]


def test_a_line_of_an_earlier_run_that_names_several_nodes_is_not_kept():
    former = "NodeName=node1,node2 CPUs=8 # node1\nNodeName=node3 CPUs=8 # node3"
    assert [one.hostname for one in cluster.merged([], former, "", ["node1", "node3"])] == ["node3"]


@pytest.mark.parametrize(("time", "fits"), [("12:00:00", True), ("2-12", True), ("43200", False), ("4h", False)])
def test_a_time_is_not_a_number(time, fits):
    """YAML reads 12:00:00 without quotes as 43200, which Slurm would take for a month of minutes."""
    assert forms.OPTIONS["slurm_time_limit"].fits(time) == fits
