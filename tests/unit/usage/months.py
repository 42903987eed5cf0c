"""Answers of Slurm and Prometheus, in the form in which the role registers them."""

from datetime import datetime
from zoneinfo import ZoneInfo

from ansible_collections.gpulab.node.plugins.plugin_utils.usage import measured, slurm

BERLIN = "Europe/Berlin"
CONFIG = """AccountingStorageTRES   = cpu,mem,energy,node,billing,gres/gpu
AccountingStorageType   = accounting_storage/slurmdbd
"""


def at(text, zone=BERLIN):
    """Return a time of the lab in seconds since 1970."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def record(**fields):
    """Return a line of sacct; times are the lab's."""
    whole = {
        "JobIDRaw": "7",
        "User": "ada",
        "UID": "20001",
        "Account": "vision",
        "Start": "Unknown",
        "End": "Unknown",
        "State": "COMPLETED",
        "AllocTRES": "billing=2,cpu=2,gres/gpu=1,mem=4G,node=1",
        "NodeList": "n1",
        **fields,
    }
    for name in ("Start", "End"):
        if whole[name] != "Unknown":
            whole[name] = str(at(whole[name]))
    return slurm.BETWEEN.join(whole[name] for name in slurm.FIELDS)


def from_slurm(*records, config=CONFIG, running="", **failed):
    """Return what a controller answers; failed has the message of a question that it does not."""
    texts = {"config": config, "running": running, "jobs": "".join(f"{line}\n" for line in records)}
    return {
        name: {"rc": 1, "stdout": "", "stderr": failed[name]} if name in failed else {"rc": 0, "stdout": text}
        for name, text in texts.items()
    }


def from_prometheus(**samples):
    """Return what Prometheus answers: each sample is (labels, value)."""
    return {name: answer(samples.get(name, ())) for name in measured.RULES}


def answer(samples):
    """Return one answer of Prometheus' query API."""
    result = [{"metric": labels, "value": [0, str(value)]} for labels, value in samples]
    return {"status": 200, "json": {"status": "success", "data": {"resultType": "vector", "result": result}}}


def watched(node="n1", hours=720.0, gpus=2, busy=0.0):
    """Return the samples of a node that was watched for so many hours, its GPUs used for busy hours."""
    labels = {"instance": node}
    return {
        "hours": [(labels, hours)],
        "gpu_hours": [(labels, gpus * hours)],
        "busy_hours": [(labels, busy)],
    }
