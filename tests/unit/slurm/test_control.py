"""What gpulab reads of a node in Slurm, from recordings of Slurm 22.05.8, and what it asks of Slurm."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.module_utils.slurm import control

RECORDED = (
    "NodeName=fleetrec CoresPerSocket=1  CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=N/A AvailableFeatures=(null)"
    " ActiveFeatures=(null) Gres=gpu:h100:2 NodeAddr=fleetrec NodeHostName=fleetrec  RealMemory=1000 AllocMem=0"
    " FreeMem=N/A Sockets=2 Boards=1 State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A"
    " Partitions=gpu  BootTime=None SlurmdStartTime=None LastBusyTime=2026-11-26T21:04:37"
    " CfgTRES=cpu=2,mem=1000M,billing=2 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s"
    " ExtSensorsWatts=0 ExtSensorsTemp=n/s{reason}\n"
)
BUILD = ("2", "1000", "(null)", "gpu:h100:2")
RUN = "20261126T210000Z"
OURS = f" Reason=gpulab {RUN}: driver 535 -> 550, by anna [root@2026-11-26T21:04:34]"


def node(state="IDLE", reason=""):
    (found,) = control.nodes(RECORDED.format(state=state, reason=reason))
    return found


def test_a_node_that_takes_jobs_is_not_drained_and_has_no_reason():
    assert node("IDLE+NOT_RESPONDING") == control.NodeState(
        "fleetrec", "fleetrec", ("IDLE", "NOT_RESPONDING"), gres="gpu:h100:2", partitions=("gpu",), build=BUILD
    )
    assert not node().drained


def test_a_node_that_is_up_and_takes_jobs_is_usable():
    assert [node(state).usable for state in ("IDLE", "MIXED", "ALLOCATED+COMPLETING", "IDLE+PLANNED")] == [True] * 4
    states = ("IDLE+NOT_RESPONDING", "MIXED+DRAIN", "DOWN*", "IDLE+MAINT", "IDLE+POWERED_DOWN", "UNKNOWN")
    assert [node(state).usable for state in states] == [False] * 6


def test_a_drained_node_tells_who_drained_it_since_when_and_why():
    found = node("MIXED*+DRAIN", OURS)
    assert found.drained
    assert found.states == ("MIXED", "DRAIN")
    assert found.reason == f"gpulab {RUN}: driver 535 -> 550, by anna"
    assert (found.reason_by, found.reason_since) == ("root", "2026-11-26T21:04:34")


def test_a_reason_that_looks_like_fields_stays_a_reason():
    found = node("DOWN+NOT_RESPONDING", " Reason=fan State=IDLE Version=1 [root@2026-11-26T21:04:08]")
    assert (found.states, found.reason, found.version) == (("DOWN", "NOT_RESPONDING"), "fan State=IDLE Version=1", "")


def test_only_the_reason_of_this_run_is_ours():
    assert control.is_ours(node("IDLE+DRAIN", OURS), RUN)
    assert not control.is_ours(node("IDLE+DRAIN", OURS), RUN[:-1])
    assert not control.is_ours(node("IDLE+DRAIN", " Reason=fan = broken [root@2026-11-26T21:04:37]"), RUN)
    assert not control.is_ours(node(), RUN)


def test_the_reason_that_is_set_is_read_as_ours_and_is_one_line():
    said = control.reason(RUN, 'proof failed:\n  "gpu-count"')
    assert said == f"gpulab {RUN}: proof failed: 'gpu-count'"
    assert control.is_ours(node("IDLE+DRAIN", f" Reason={said} [root@2026-11-26T21:04:34]"), RUN)
    assert control.drain("fleetrec", said)[-1] == f"reason={said}"


def test_a_machine_finds_itself_by_its_host_name_whatever_slurm_calls_it():
    others = control.nodes(RECORDED.format(state="IDLE", reason="") * 2)
    assert control.own(others, "fleetrec.lab.example") == others[0]
    assert control.own(others, "fleet") is None
    named = [control.NodeState("gpu-7", "node07", ("IDLE",))]
    assert control.own(named, "node07") == named[0]
    others = [control.NodeState("node08", "node07", ("IDLE",)), control.NodeState("node07", "node07", ("IDLE",))]
    assert control.own(others, "node07") == others[1]


def test_what_is_no_node_is_none():
    assert control.nodes("slurm_load_node error: Unable to contact slurm controller (connect failure)\n") == []


def test_the_jobs_on_a_node_are_read():
    assert control.jobs("17 anna RUNNING NONE \n18 wei COMPLETING 2026-11-29T14:00:00 train all\n") == [
        control.SlurmJob("17", "anna", "RUNNING", "NONE", ""),
        control.SlurmJob("18", "wei", "COMPLETING", "2026-11-29T14:00:00", "train all"),
    ]
    assert control.jobs("\n") == []
