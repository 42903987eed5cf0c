"""gpulab's nodes in a cluster of somebody else's."""

import re
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.slurm import cluster, joining
from ansible_collections.gpulab.node.plugins.module_utils.slurm.configuration import Configuration, pairs, read
from ansible_collections.gpulab.node.plugins.modules import slurm_texts

from .test_cluster import CLUSTER, node

THEIRS = "ClusterName=mine\nGresTypes=gpu\nSlurmctldParameters=enable_configless,idle_on_node_suspend\n"
NOTHING = Configuration()
LINE = (
    "NodeName=n1 NodeAddr=10.0.0.7 Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 RealMemory=1000 Gres=gpu:a100:2"
    " Feature=training_servers # n1"
)
CPUS = "NodeName=n1 CPUs=8 RealMemory=1000 # n1"


def check(text, *, join=True, **files):
    theirs = joining.theirs_of({cluster.CONFIGURATION: text, **{f"/etc/slurm/{name}": files[name] for name in files}})
    joining.check("head", theirs, join=join)
    return theirs is not None


def code(*arguments, **more):
    with pytest.raises(Refusal) as refused:
        check(*arguments, **more)
    return refused.value


def test_a_slurm_conf_of_somebody_elses_is_left_alone_without_leave():
    assert code(THEIRS, join=False).code == "F030"
    assert check(THEIRS)


@pytest.mark.parametrize("text", ["", "\n", "# Written by gpulab (role slurm); changes\nClusterName=x\n"])
def test_no_slurm_conf_and_gpulabs_own_are_written(text):
    assert not check(text, join=False)


@pytest.mark.parametrize(
    ("line", "missing"),
    [("GresTypes=gpu\n", "GresTypes"), ("enable_configless,", "configless"), ("ClusterName=mine", "AuthType")],
)
def test_what_gpulabs_nodes_need_of_it_is_named(line, missing):
    refused = code(THEIRS.replace(line, "AuthType=auth/slurm" if missing == "AuthType" else ""))
    assert refused.code == "F031"
    assert missing in refused.cause


def test_a_setting_that_only_begins_so_is_another():
    assert code(THEIRS.replace("GresTypes=gpu", "GresTypes=gpu_mem")).code == "F031"


@pytest.mark.parametrize(
    "text",
    [
        'grestypes = "mps,gpu"\nSLURMCTLDPARAMETERS=Enable_Configless # x\n',
        "GresTypes=gpu\nSlurmctldParameters=idle_on_node_suspend,\\\nenable_configless\n",
        "Include gres.types\nGresTypes=\\\ngpu\nSlurmctldParameters=enable_configless\n",
        "include all\n",
        "GresTypes=gpu SlurmctldParameters=enable_configless\n",
    ],
)
def test_what_is_there_is_found_however_it_is_written(text):
    assert check(text, all="GresTypes=gpu\nInclude more", more="SlurmctldParameters=enable_configless\n")


def test_their_partition_of_the_same_name_is_not_replaced():
    assert code(f"{THEIRS}PartitionName=gpulab Nodes=ALL\n").code == "F047"


def test_beside_a_slurm_conf_of_somebody_elses_only_new_nodes_are_named_and_no_setting():
    shown = "NodeName=node1 Arch=x86_64 State=IDLE\nNodeName=gpu2 NodeHostName=node2 State=IDLE\n"
    files = joining.joined(CLUSTER, [node(), node("node2"), node("node3")], shown, "", NOTHING)
    text = files[joining.JOINED]
    assert "PartitionName=gpulab Nodes=node3 MaxTime=INFINITE State=UP" in text.splitlines()
    assert [line.partition("=")[0] for line in text.splitlines()] == ["NodeName", "PartitionName"]
    assert text.splitlines()[0] == node("node3").line
    assert len(files[joining.JOINED_GRES].splitlines()) == 2


def test_nodes_that_were_added_before_stay():
    theirs = read("NodeName=DEFAULT Boards=2 CPUs=4 State=DOWN TmpDisk=9", {})
    first = joining.joined(CLUSTER, [node("node2")], "NodeName=node1 State=IDLE\n", "", theirs)
    shown = "NodeName=node1 State=IDLE\nNodeName=node2 State=IDLE\n"
    assert joining.joined(CLUSTER, [node("node2")], shown, first[joining.JOINED], theirs) == first
    (kept,) = cluster.merged([], first[joining.JOINED], first[joining.JOINED_GRES], ["node2"])
    assert joining.joined(CLUSTER, [kept], shown, first[joining.JOINED], theirs) == first


def test_nothing_is_included_where_no_node_is_added():
    assert set(joining.joined(CLUSTER, [node()], "NodeName=node1 State=IDLE\n", "", NOTHING).values()) == {""}


# Slurm 22.05.8 and 24.11.5 say of each of these that the node has 64 CPUs, or 8, and no State of DEFAULT's.
@pytest.mark.parametrize(
    ("line", "default", "gets"),
    [
        (LINE, "State=FUTURE", {"state": "UNKNOWN"}),
        (LINE, 'state=down Reason="not yet"', {"state": "UNKNOWN"}),
        (LINE, "SocketsPerBoard=1", {"boards": "1", "socketsperboard": "2", "cpus": "64"}),
        (LINE, "Boards=4", {"boards": "1", "socketsperboard": "2", "cpus": "64"}),
        (LINE, "CPUs=32", {"sockets": "2", "corespersocket": "16", "threadspercore": "2", "cpus": "64"}),
        (LINE, "Procs=32", {"sockets": "2", "cpus": "64"}),
        (LINE, "Sockets=4 ThreadsPerCore=1", {"sockets": "2", "threadspercore": "2", "cpus": "64"}),
        (LINE, "TmpDisk=90000", {"tmpdisk": "0"}),
        (LINE, "Gres=gpu:8", {"gres": "gpu:a100:2"}),
        (CPUS, "Gres=gpu:8", {"gres": "gpu:0"}),
        (CPUS, "Sockets=4 CoresPerSocket=8", {"sockets": "8", "corespersocket": "1", "cpus": "8"}),
        (CPUS, "Boards=4 SocketsPerBoard=2", {"boards": "1", "socketsperboard": "8", "cpus": "8"}),
    ],
)
def test_a_default_does_not_change_what_the_machine_is(line, default, gets):
    told = joining.line(line, read(f"NodeName=DEFAULT {default}", {}).node_defaults)
    found = pairs(told.partition("#")[0])
    assert {key: found.get(key) for key in gets} == gets
    assert not {"sockets", "socketsperboard"} <= {*found}  # of both, Slurm takes the latter and complains
    assert told.endswith(" # n1")
    assert found["nodename"] == "n1"
    assert found["realmemory"] == "1000"
    assert joining.line(told, read(f"NodeName=DEFAULT {default}", {}).node_defaults) == told


def test_a_line_without_defaults_is_as_it_was():
    assert joining.line(LINE, {}) == LINE
    assert joining.line(LINE, {"weight": "7"}) == LINE


def test_the_partition_of_gpulabs_nodes_is_not_the_one_of_all_jobs():
    theirs = read("PartitionName=DEFAULT Default=YES State=DOWN AllowAccounts=phys", {})
    text = joining.joined(CLUSTER, [node("node3")], "", "", theirs)[joining.JOINED]
    assert text.splitlines()[-1] == "PartitionName=gpulab Nodes=node3 Default=NO MaxTime=INFINITE State=UP"


def test_what_the_nodes_get_of_the_cluster_is_told():
    theirs = read(
        "NodeName=DEFAULT Weight=7 State=FUTURE CPUs=4 CoreSpecCount=2 Features=old\n"
        "PartitionName=DEFAULT AllowAccounts=phys MaxTime=30\n"
        "PartitionName=batch Nodes=n[1-3]\nPartitionName=all Nodes=all Default=YES\nPartitionName=spare Nodes=ALL\n",
        {},
    )
    assert list(joining.told(theirs)) == [
        "gpulab's nodes get what slurm.conf gives by DEFAULT: weight=7, corespeccount=2",
        "the partition gpulab gets what slurm.conf gives by DEFAULT: allowaccounts=phys",
        "gpulab's nodes without a host type get the features that slurm.conf gives by DEFAULT: old",
        "gpulab's nodes are in the partition all too, which has all nodes, to which jobs go that name none",
        "gpulab's nodes are in the partition spare too, which has all nodes",
    ]
    assert list(joining.told(NOTHING)) == []


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return a function that runs the module in a directory of its own; it returns the texts and the warnings."""
    names = {path: tmp_path / path.rpartition("/")[2] for path in slurm_texts.PATHS}
    monkeypatch.setattr(slurm_texts, "Path", lambda path: names.get(path, tmp_path / path.rpartition("/")[2]))

    def run(join, **files):
        for name, text in files.items():
            (tmp_path / re.sub("_", ".", name)).write_text(text)
        result, warnings = {}, []
        made = SimpleNamespace(params={"join": join}, warn=warnings.append, exit_json=result.update)
        monkeypatch.setattr(slurm_texts, "AnsibleModule", lambda **_: made)
        slurm_texts.main()
        return result["texts"], warnings

    return run


def test_the_files_and_those_that_they_include_are_read(module):
    texts, warnings = module(
        join=True,
        slurm_conf=f"{THEIRS}Include nodes.conf\nInclude none.conf\n",
        nodes_conf="NodeName=DEFAULT Weight=7\n",
    )
    assert texts.keys() == {"/etc/slurm/slurm.conf", "/etc/slurm/nodes.conf"}
    assert warnings == ["gpulab's nodes get what slurm.conf gives by DEFAULT: weight=7"]
    assert joining.theirs_of(texts).node_defaults == {"weight": "7"}


def test_of_a_cluster_of_gpulabs_own_and_of_one_that_is_not_joined_nothing_is_told(module):
    own = "# Written by gpulab (role slurm); changes\nPartitionName=gpu Nodes=ALL Default=YES\n"
    assert module(join=True, slurm_conf=own)[1] == []
    assert module(join=False, slurm_conf="PartitionName=all Nodes=ALL\n")[1] == []
