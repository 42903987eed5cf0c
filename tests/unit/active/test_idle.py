"""Who keeps a GPU from being tested."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.active.idle import HIDDEN, in_use, why_not

UNTOLD = "NVML does not report which GPU it is, or who uses it"
NOBODY = {"state": "idle", "who": []}
GPUS = [
    {"uuid": f"GPU-{n}", "bus_id": f"0000:0{n}:00.0", "processes": [], "mig": {"unsupported": "NOT_SUPPORTED"}}
    for n in range(2)
]


def gpus(**first):
    return [{**GPUS[0], **first}, GPUS[1]]


def users(*who, state="busy"):
    return {"state": state, "who": list(who)}


def process(pid, **more):
    known = {
        "pid": pid,
        "user": "ann",
        "command": "python",
        "device": "/dev/nvidia0",
        "kind": "process",
        "service": False,
    }
    return {**known, **more}


@pytest.mark.parametrize(
    ("listed", "who", "reasons"),
    [
        (GPUS, NOBODY, (None, None)),
        (gpus(processes=[{"pid": 7}]), users(process(7)), ("in use by python (PID 7, user ann)", None)),
        (GPUS, users(process(9)), ("python (PID 9, user ann) may use any GPU",) * 2),
        (GPUS, users(process(9, kind="virtual_machine", device="/dev/vfio/47")), (None, None)),
        (GPUS, users(process(5, service=True), state="idle"), (None, None)),
        (GPUS, users(state="unknown"), ("who uses it is hidden from this user (run as root)",) * 2),
        (gpus(processes={"error": "UNKNOWN"}), NOBODY, (UNTOLD, None)),
        (gpus(mig={"enabled": True}), NOBODY, ("MIG is on: the GPU is not one device", None)),
        (
            [{"index": 0, "error": "GPU_IS_LOST"}, GPUS[1]],
            NOBODY,
            (UNTOLD, None),
        ),
    ],
)
def test_reason(listed, who, reasons):
    assert tuple(why_not(gpu, listed, who) for gpu in listed) == reasons


@pytest.mark.parametrize(
    ("who", "reason"),
    [
        (NOBODY, None),
        (users(process(7), process(9)), "in use by python (PID 7, user ann), python (PID 9, user ann)"),
        (users(process(5, service=True), state="idle"), None),
        (users(state="unknown"), HIDDEN),
    ],
)
def test_whoever_uses_a_gpu_needs_the_node(who, reason):
    assert in_use(who) == reason
