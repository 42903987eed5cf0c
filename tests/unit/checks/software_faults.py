"""Faults of libraries, container engines, monitoring, Slurm and limits; see faults.py."""

from __future__ import annotations

from typing import Any

from . import nodes
from .faults import Fault, all_of, put

DRIVER_PLAN = {"branch": "580", "version": nodes.DRIVER, "kernel_modules": "open", "persistence": True}


def planned(**libraries: str) -> dict[str, Any]:
    """Return a plan with these libraries."""
    return {
        "driver": DRIVER_PLAN,
        "container_toolkit": {"packages": []},
        "libraries": {name: {"version": version} for name, version in libraries.items()},
    }


def left(*drift: str) -> Any:
    """Return an injection of a receipt, with what somebody else changed of what it names."""
    receipt = {"inputs": {}, "problem": "", "differs": list(drift), "drift": list(drift)}
    return put("receipts", {"base": receipt, "nccl": receipt})


def people(**differs: Any) -> Any:
    """Return an injection of people whom the inventory gave the node, with what differs of them."""
    healthy = {"people": 2, "differs": {}, "unlisted": [], "limits": {"slices": 1, "differs": []}}
    healthy["quotas"] = {"set": 2, "full": []}
    return put("accounts", {**healthy, **differs})


def directory(**differs: Any) -> Any:
    """Return an injection of a directory that the node has joined, with what differs of it."""
    return put("directory", {"groups": ["vision"], "missing": [], "clashes": [], "pam": True, **differs})


PEOPLE = [
    Fault(
        "somebody put a person into a group",
        "l40s",
        people(differs={"ada": ["is in the group sudo", "has other keys"]}),
        "users-accounts",
        "give_people",
        "warn",
        says="ada is in the group sudo, has other keys",
    ),
    Fault(
        "an account that no list has",
        "l40s",
        people(unlisted=[20099]),
        "users-accounts",
        "list_people",
        "warn",
        says="uid 20099",
    ),
    Fault(
        "somebody has used up a quota",
        "l40s",
        people(
            quotas={
                "set": 2,
                "full": [{"name": "ada", "place": "/home", "what": "KiB", "used": 60 << 20, "most": 50 << 20}],
            }
        ),
        "users-quotas",
        "make_room",
        "warn",
        says="ada has 60.0 GiB of 50.0 GiB in /home, 10.0 GiB too much",
    ),
    Fault(
        "systemd has no limit for sessions",
        "l40s",
        people(
            limits={
                "slices": 1,
                "differs": [{"user": "ada", "property": "MemoryMax", "wanted": "25%", "found": "infinity"}],
            }
        ),
        "users-limits",
        "give_people",
        "warn",
        says="sessions of ada have MemoryMax infinity",
    ),
    Fault(
        "the directory renamed a group",
        "l40s",
        directory(groups=["vision", "speech"], missing=["vision"]),
        "users-directory",
        "mend_directory",
        "warn",
        says="nobody of vision can log in",
    ),
    Fault(
        "a student has the number of a local account",
        "l40s",
        directory(clashes=["mallory (1000)"]),
        "users-directory",
        "part_numbers",
        "fail",
        says="mallory (1000)",
    ),
    Fault(
        "somebody changed the files of PAM",
        "l40s",
        directory(pam=False),
        "users-directory",
        "mend_pam",
        "warn",
        says="logins do not ask SSSD",
    ),
]
LIBRARIES = [
    Fault(
        "planned cuDNN missing",
        "l40s",
        put("libraries.cudnn", []),
        "cuda-libraries",
        "install_software",
        plan=planned(cudnn="9.14.0.64"),
        says="cuDNN 9.14.0.64 is not installed",
    ),
    Fault(
        "another NCCL than the plan's",
        "h100x8",
        lambda _: None,
        "cuda-libraries",
        "install_software",
        plan=planned(nccl="2.29.2"),
        says="NCCL 2.28.3 is installed",
    ),
]
CONTAINERS = [
    Fault(
        "Docker's default runtime is not defined",
        "h100x8",
        all_of(put("containers.docker.default_runtime", "nvidia"), put("containers.docker.runtimes", [])),
        "container-runtime",
        "configure",
        says="cannot restart",
    ),
    Fault(
        "Docker starts no container",
        "l40s",
        put("container_started", {"seconds": 0.9, "problem": "docker run: no space left on device"}),
        "container-start",
        "mend_docker",
        "warn",
    ),
    Fault(
        "the Docker that is planned starts no container",
        "l40s",
        put("container_started", {"seconds": 0.9, "problem": "docker run: no space left on device"}),
        "container-start",
        "mend_docker",
        plan={"container_toolkit": {"engines": ["docker"], "packages": []}},
    ),
    Fault(
        "the program of Docker's default runtime is gone",
        "h100x8",
        all_of(
            put("containers.docker.default_runtime", "nvidia"),
            put("containers.docker.missing_programs", {"nvidia": "/opt/nvidia-container-runtime"}),
        ),
        "container-runtime",
        "set_by_hand",
        says="/opt/nvidia-container-runtime",
    ),
    Fault(
        "the root of the driver holds none",
        "t4",
        all_of(put("containers.toolkit_root", "/run/nvidia/driver"), put("containers.toolkit_root_there", value=False)),
        "toolkit-driver-root",
        "set_by_hand",
        "warn",
    ),
    Fault(
        "containerd has CDI off",
        "h100x8",
        lambda _: None,
        "containerd-cdi",
        "set_by_hand",
        "warn",
        plan={"container_toolkit": {"engines": ["containerd"], "packages": []}},
    ),
    Fault(
        "SELinux keeps Podman's containers from the GPUs",
        "l40s",
        all_of(
            put("engines.podman", "5.4.2"),
            put("containers.selinux", {"enforcing": True, "devices": False}),
        ),
        "container-selinux",
        "allow_devices",
        "warn",
    ),
    Fault(
        "Docker has failed",
        "l40s",
        put("services.docker", {"load": "loaded", "active": "failed", "sub": "failed", "enabled": "enabled"}),
        "container-runtime",
        "start_service",
    ),
    Fault(
        "Podman without a CDI specification",
        "rtx4090x2",
        all_of(put("engines.podman", "5.4.2"), put("containers.cdi", [])),
        "cdi-specification",
        "configure",
        "warn",
        says="Podman",
    ),
]
SLURM = {
    "munge": True,
    "answers": True,
    "node": {"name": "node1", "states": ["IDLE"], "reason": "", "gpus": 2},
    "accounting": True,
    "door": {"opens": False, "why": "", "beside": [], "as_root": []},
}


def slurm(**node):
    """Return a change that lets Slurm know a node of two GPUs, with what differs."""
    return put("slurm", {**SLURM, "node": {**SLURM["node"], **node}})


def door(**differs):
    """Return a change that closes the door beside Slurm, with what differs."""
    return put("slurm", {**SLURM, "door": {**SLURM["door"], **differs}})


MONITORING = [
    Fault(
        "MUNGE is stopped",
        "rtx4090x2",
        put("slurm", {**SLURM, "munge": False}),
        "slurm-munge",
        "start_service",
        "fail",
    ),
    Fault(
        "slurmctld does not answer",
        "rtx4090x2",
        put("slurm", {**SLURM, "answers": False, "node": None}),
        "slurm-node",
        "set_up_slurm",
        "fail",
        says="does not answer",
    ),
    Fault(
        "slurmctld does not know the node",
        "rtx4090x2",
        put("slurm", {**SLURM, "node": None}),
        "slurm-node",
        "set_up_slurm",
        "fail",
        says="does not know",
    ),
    Fault(
        "slurmd is stopped",
        "rtx4090x2",
        slurm(states=["DOWN"]),
        "slurm-node",
        "start_service",
        "fail",
    ),
    Fault(
        "the node is drained",
        "rtx4090x2",
        slurm(states=["IDLE", "DRAIN"], reason="gpulab health: GPU 0"),
        "slurm-node",
        "resume_node",
        "warn",
        says="gpulab health: GPU 0",
    ),
    Fault(
        "MariaDB is stopped",
        "rtx4090x2",
        put("slurm", {**SLURM, "accounting": False}),
        "slurm-accounting",
        "start_service",
        "warn",
        says="jobs go on",
    ),
    Fault(
        "the door beside Slurm is open",
        "rtx4090x2",
        door(opens=True, why="/dev/nvidia0"),
        "slurm-door",
        "close_door",
        "fail",
        says="/dev/nvidia0",
    ),
    Fault(
        "cron is a way round the door",
        "rtx4090x2",
        door(beside=["cron", "systemd-cron"]),
        "slurm-door",
        "close_door",
        "warn",
        says="systemd-cron",
    ),
    Fault(
        "Docker is a way round the door",
        "rtx4090x2",
        door(as_root=["ada", "ben"]),
        "slurm-door",
        "close_door",
        "warn",
        says="ada, ben",
    ),
    Fault("Slurm knows too few GPUs", "rtx4090x2", slurm(gpus=1), "slurm-gpus", "set_up_slurm", "fail", says="1 of 2"),
    Fault(
        "node exporter does not answer",
        "rtx4090x2",
        put("monitoring.exporter", {"listen": "10.1.2.3:9100", "answers": False, "serves_gpus": None}),
        "node-exporter",
        "start_service",
        "warn",
        says="10.1.2.3:9100",
    ),
    Fault(
        "node exporter serves no text files",
        "rtx4090x2",
        put("monitoring.exporter.serves_gpus", value=False),
        "node-exporter",
        "configure",
        "warn",
    ),
    Fault(
        "DCGM's exporter does not answer",
        "h100x8",
        put("monitoring.dcgm_exporter", {"listen": "10.1.2.3:9400", "answers": False, "serves_gpus": None}),
        "dcgm-exporter",
        "start_service",
        "warn",
        says="10.1.2.3:9400",
    ),
    Fault(
        "DCGM's exporter sees no GPU",
        "a100-pcie-x2",
        put("monitoring.dcgm_exporter.serves_gpus", value=False),
        "dcgm-exporter",
        "start_service",
        "warn",
        says="no GPU",
    ),
    Fault(
        "the collector of GPU metrics stopped",
        "rtx4090x2",
        put("monitoring.collector.age_seconds", 121),
        "gpu-metrics",
        "start_service",
        "warn",
        says="121 s old",
    ),
    Fault(
        "the collector of GPU metrics never wrote",
        "l40s",
        put("monitoring.collector.age_seconds", None),
        "gpu-metrics",
        "start_service",
        "warn",
    ),
]
LIMITS = [
    Fault(
        "sessions may lock 8 MiB, with InfiniBand",
        "h100x8",
        put("limits.sessions.memlock", 8 << 20),
        "memlock",
        "configure",
        "warn",
        says="limits.d",
    ),
    Fault(
        "services may lock 64 KiB, with InfiniBand",
        "h200x8",
        put("limits.services.memlock", 64 << 10),
        "memlock",
        "configure",
        "warn",
        says="DefaultLimitMEMLOCK",
    ),
    Fault(
        "sessions may open few files", "l40s", put("limits.sessions.nofile", 4096), "open-files", "configure", "info"
    ),
    Fault(
        "64 MiB of shared memory for several GPUs",
        "v100x4",
        put("limits.shared_memory_mib", 64),
        "shared-memory",
        "configure",
        "warn",
        says="64 MiB",
    ),
]
DRIFT = [
    Fault(
        "somebody edited what gpulab keeps",
        "rtx4090x2",
        left("/etc/nccl.conf was edited", "libnvidia-ml1 was removed"),
        "drift",
        "configure",
        "warn",
        says="not by gpulab: /etc/nccl.conf was edited; libnvidia-ml1 was removed",
    ),
]
