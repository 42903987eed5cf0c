"""Troubles as data: what is wrong with a node or a job, and which rule names it with which remedy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from . import cases

OTHER = {"user": "bob", "parent": 1, "command": "python", "environment": {"HOME": "/home/bob"}}
LIB = "/usr/local/cuda-11.8/lib64"

STANDS = {
    "number": 7,
    "operation": "all_reduce",
    "sizes": [[4]],
    "types": ["Float"],
    "place": "train.py:8",
    "created": "",
}
DUMPS = [
    {
        "files": "/data/nccl_trace_rank_",
        "rank": rank,
        "written": "2026-11-26T09:00:00Z",
        "problem": None,
        "groups": [{"name": "default_pg", "ranks": [0, 1], "last": last, "stands": stands}],
    }
    for rank, last, stands in ((0, 7, {**STANDS, "created": "2026-11-26T08:50:00Z"}), (1, 6, None))
]


@dataclass(frozen=True)
class Trouble:
    """change alters the evidence of a node with a job of PID 1001 (and its facts); rule has to be the first finding.

    remedy is a part of the command that cures it.
    """

    rule: str
    symptom: str
    change: Callable[[dict[str, Any], dict[str, Any]], None]
    remedy: str
    asked: dict[str, Any] = field(default_factory=dict)
    model: str = "h100x8"


def of_job(record_changes: dict[str, Any], pid: int = 1001) -> Callable[..., None]:
    """Change one process of the job; environment adds to its variables."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        record = next(one for one in found["processes"] if one["pid"] == pid)
        changes = dict(record_changes)
        record["environment"].update(changes.pop("environment", {}))
        record.update(changes)

    return change


def also(found_changes: dict[str, Any]) -> Callable[..., None]:
    """Replace parts of the evidence."""
    return lambda found, _facts: found.update(found_changes)


def machine(**changes: Any) -> Callable[..., None]:
    """Change the machine's part."""
    return lambda found, _facts: found["machine"].update(changes)


def both(*changes: Callable[..., None]) -> Callable[..., None]:
    """Change several things."""

    def change(found: dict[str, Any], facts: dict[str, Any]) -> None:
        for one in changes:
            one(found, facts)

    return change


def environment(**changes: Any) -> Callable[..., None]:
    """Change the job's Python environment; packages adds."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        record = found["environments"][0]
        record["packages"].update(changes.get("packages", {}))
        record.update({key: value for key, value in changes.items() if key != "packages"})

    return change


def other_holds(share: float, gpu: int = 0, **changes: Any) -> Callable[..., None]:
    """Let bob's process hold a share of a GPU that nobody else uses."""

    def change(found: dict[str, Any], _facts: dict[str, Any]) -> None:
        found["processes"].append(cases.process(2001, **{**OTHER, "cores": 1.0, **changes}))
        record = found["gpus"][gpu]
        record.update(used_mib=4, later_mib=4, holders=[])
        cases.holds(found, gpu, 2001, int(share * record["total_mib"]))

    return change


def grows(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let the job's memory on GPU 0 grow by 100 MiB a second."""
    entry = found["gpus"][0]["holders"][0]
    entry["later_mib"] = entry["memory_mib"] + 300
    found["gpus"][0]["later_mib"] += 300


def unexplained(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let memory be held by nobody."""
    found["processes"] = []
    for gpu in found["gpus"]:
        gpu.update(holders=[], used_mib=4, later_mib=4, utilization=0)
    found["gpus"][2].update(used_mib=40000, later_mib=40000)


def no_rank(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let rank 3 be gone."""
    found["processes"] = [one for one in found["processes"] if one["pid"] != 1004]


def low_power(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let all GPUs spin in a collective."""
    for gpu in found["gpus"]:
        gpu.update(utilization=100, power_mw=90000)


def starved(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let GPU 0 wait for its data."""
    found["gpus"][0].update(utilization=12, power_mw=100000)


def shared(found: dict[str, Any], _facts: dict[str, Any]) -> None:
    """Let bob compute on GPU 0, too, in little memory."""
    found["processes"].append(cases.process(2001, **{**OTHER, "cores": 1.0}))
    cases.holds(found, 0, 2001, 500)


def linked(version: str | None = "8.9.7", library: str = "cudnn", major: str = "9", directory: str = LIB) -> Any:
    """Put a library into a directory of LD_LIBRARY_PATH of the job."""
    name = f"{directory}/lib{library}.so.{major}"
    one = {"library": library, "major": major, "path": name, "version": version}
    return both(
        of_job({"environment": {"LD_LIBRARY_PATH": f"{directory}:/opt/own/lib"}}),
        also({"directories": [{"path": directory, "there": True, "found": [one]}]}),
    )


def linked_by_system(path: str, version: str, *files: str) -> dict[str, Any]:
    """Return a cuDNN that the linker knows; files are all of it, where packages put none."""
    return {"library": "cudnn", "major": "9", "path": path, "version": version, "files": list(files)}


def setting(name: str, value: str) -> Callable[..., None]:
    """Let line 12 of a file of the user's shell set a variable."""
    return also({"settings": [{"name": name, "value": value, "file": "/home/anna/.bashrc", "line": 12}]})


def server(state: str = "open", certificate: Any = None, host: str = "hub.example.org", port: int = 443) -> Any:
    """Let a server that was asked for answer so."""
    return also({"servers": [{"host": host, "port": port, "state": state, "certificate": certificate}]})


def fact(path: str, value: Any) -> Callable[..., None]:
    """Change a fact."""

    def change(_found: dict[str, Any], facts: dict[str, Any]) -> None:
        *parents, key = path.split(".")
        at = facts
        for parent in parents:
            at = at[int(parent)] if isinstance(at, list) else at[parent]
        at[key] = value

    return change


def capability(value: str) -> Callable[..., None]:
    """Give every GPU a compute capability."""
    return lambda _found, facts: [gpu.update(compute_capability=value) for gpu in facts["nvml"]["gpus"]]


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 79.15 GiB of "
    "which {free} is free. {others}Of the allocated memory 60.00 GiB is allocated by PyTorch, and {unused} is reserved "
    "by PyTorch but unallocated."
)
EXPIRED = {"problem": "certificate has expired", "starts": "2024-01-01T00:00:00Z", "ends": "2025-01-01T00:00:00Z"}
TAKEN = "RuntimeError: The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address already in use)."
BOB_LISTENS = also({"listeners": [{"port": 29500, "pid": 2001, "user": "bob", "command": "python"}]})
NOTHING = also({})

TROUBLES = {
    "another user holds the GPU": Trouble(
        "memory-held", "memory", other_holds(0.9), "Ask bob about PID 2001", {"user": "anna"}
    ),
    "another GPU is free": Trouble(
        "memory-held",
        "memory",
        both(other_holds(0.9), lambda found, _facts: found["gpus"][5].update(used_mib=4)),
        "export CUDA_VISIBLE_DEVICES=5",
        {"user": "anna"},
    ),
    "a worker outlived its program": Trouble(
        "memory-left-over",
        "memory",
        other_holds(
            0.5, keeper=None, cores=0.0, state="S", arguments="python -c from multiprocessing.spawn import spawn_main"
        ),
        "kill 2001",
    ),
    "a zombie holds memory": Trouble(
        "memory-zombie", "memory", other_holds(0.05, state="Z", parent=1999, cores=0.0), "whose process 1999 is"
    ),
    "nobody holds the memory": Trouble("memory-unexplained", "memory", unexplained, "fuser -v /dev/nvidia*"),
    "a leak on the GPU": Trouble("memory-grows", "memory", grows, "loss.item()", {"pid": 1001}),
    "a leak on the host": Trouble(
        "memory-grows", "memory", of_job({"later_mib": 4900}), "py-spy dump --pid 1001", {"pid": 1001}
    ),
    "fragmented memory": Trouble(
        "memory-fragmented",
        "memory",
        NOTHING,
        "expandable_segments:True",
        {"error": OOM.format(tried="2.00 GiB", free="1.10 GiB", others="", unused="5.60 GiB"), "pid": 1001},
    ),
    "the error names another process": Trouble(
        "memory-other-process",
        "memory",
        NOTHING,
        "whose process 4711 is: ps -o pid,ppid,user,lstart,args -p 4711",
        {
            "error": OOM.format(
                tried="2.00 GiB",
                free="1.10 GiB",
                others="Process 4711 has 50.00 GiB memory in use. ",
                unused="0.10 GiB",
            ),
            "pid": 1001,
        },
    ),
    "a tensor larger than the GPU": Trouble(
        "memory-too-large",
        "memory",
        NOTHING,
        "batch size",
        {"error": OOM.format(tried="120.00 GiB", free="70.00 GiB", others="", unused="0.10 GiB"), "pid": 1001},
    ),
    "TensorFlow took all": Trouble(
        "memory-preallocated",
        "memory",
        of_job({"libraries": ["/x/tensorflow/libtensorflow_framework.so.2"]}),
        "export TF_FORCE_GPU_ALLOW_GROWTH=true",
        {"pid": 1001},
    ),
    "JAX took all": Trouble(
        "memory-preallocated",
        "memory",
        of_job({"libraries": ["/x/jax_plugins/xla_cuda12/xla_cuda_plugin.so"]}),
        "export XLA_PYTHON_CLIENT_PREALLOCATE=false",
        {"pid": 1001},
    ),
    "the kernel killed a worker": Trouble(
        "memory-host-killed", "memory", machine(killed=[{"pid": 1009, "command": "python3"}]), "fewer workers"
    ),
    "caching is off": Trouble(
        "memory-caching-off",
        "memory",
        of_job({"environment": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}}),
        "unset PYTORCH_NO_CUDA_MEMORY_CACHING",
        {"pid": 1001},
    ),
    "a model that does not fit": Trouble(
        "memory-model", "memory", NOTHING, "QLoRA", {"parameters": 8e9, "pid": 1001}, model="rtx3060"
    ),
    "a rank died": Trouble("hang-dead-rank", "hang", no_rank, "End the job where it was started", {"pid": 1001}),
    "a rank is a zombie": Trouble("hang-dead-rank", "hang", of_job({"state": "Z"}, 1004), "End the job", {"pid": 1001}),
    "a rank did not come to a collective operation": Trouble(
        "hang-collective", "hang", also({"dumps": DUMPS}), "what rank 1 does after operation 6", {"pid": 1001}
    ),
    "NCCL warns in its log": Trouble(
        "hang-nccl-warning",
        "hang",
        also(
            {
                "nccl_logs": [
                    {"pid": 1001, "path": "/data/nccl.log", "warnings": ["NCCL WARN Timeout waiting for a peer"]}
                ]
            }
        ),
        "less /data/nccl.log",
        {"pid": 1001},
    ),
    "a rank was stopped": Trouble("hang-stopped", "hang", of_job({"state": "T"}), "kill -CONT 1001", {"pid": 1001}),
    "a dead file server": Trouble(
        "hang-storage",
        "hang",
        both(
            also({"mounts": [{"mount": "/data", "type": "nfs4", "source": "server:/data", "milliseconds": None}]}),
            of_job({"state": "D", "waits": "rpc_wait_bit_killable", "remote": ["/data"]}),
        ),
        "umount -l /data",
        {"pid": 1001},
    ),
    "a slow file server": Trouble(
        "hang-storage",
        "hang",
        of_job({"state": "D", "waits": "nfs_wait_bit_killable"}),
        "ls -l /proc/1001/fd",
        {"pid": 1001},
    ),
    "stuck in the driver": Trouble(
        "hang-driver", "hang", of_job({"state": "D", "waits": "os_acquire_rwlock_write"}), "reboot", {"pid": 1001}
    ),
    "a process that cannot be read": Trouble(
        "hang-driver", "hang", also({"stuck": 1001, "late": ["processes"]}), "/proc/1001/stack"
    ),
    "a lock that another has": Trouble(
        "hang-lock", "hang", also({"waiting": [[1001, 1002]]}), "Ask anna about PID 1002", {"pid": 1001}
    ),
    "a lock of a killed compilation": Trouble(
        "hang-extension-lock",
        "hang",
        also(
            {
                "locks": [
                    {
                        "path": "/home/anna/.cache/torch_extensions/py311/own/lock",
                        "held_by": [],
                        "age_seconds": 900,
                        "shared": False,
                    }
                ]
            }
        ),
        "rm -f /home/anna/.cache/torch_extensions/py311/own/lock",
        {"pid": 1001},
    ),
    "a firewall between the nodes": Trouble(
        "hang-connecting",
        "hang",
        both(
            of_job({"sockets": [77]}),
            also({"connecting": [{"state": "02", "port": 4000, "peer": "10.1.2.4", "peer_port": 23457, "inode": 77}]}),
        ),
        "network_state: present",
        {"pid": 1001},
    ),
    "GPUs that only wait": Trouble("hang-waits-for-ranks", "hang", low_power, "py-spy dump", {"pid": 1001}),
    "ranks of two jobs": Trouble(
        "hang-different-jobs", "hang", of_job({"environment": {"WORLD_SIZE": "16"}}, 1003), "torchrun", {"pid": 1001}
    ),
    "a stack in the DataLoader": Trouble(
        "hang-stack",
        "hang",
        of_job({"cores": 0.0, "stack": ["_try_get_data (torch/utils/data/dataloader.py:1243)"]}),
        "num_workers=0",
        {"pid": 1001},
    ),
    "a stack in a collective": Trouble(
        "hang-stack",
        "hang",
        of_job({"cores": 0.0, "stack": ["all_reduce (torch/distributed/distributed_c10d.py:2501)"]}),
        "py-spy dump --pid 1001",
        {"pid": 1001},
    ),
    "a stack in the rendezvous": Trouble(
        "hang-stack",
        "hang",
        of_job({"cores": 0.0, "stack": ["_create_c10d_store (torch/distributed/rendezvous.py:189)"]}),
        "--master-addr",
        {"pid": 1001},
    ),
    "a question at the terminal": Trouble(
        "hang-terminal",
        "hang",
        of_job({"state": "S", "waits": "n_tty_read", "cores": 0.0, "terminal": "/dev/pts/3"}),
        "/dev/pts/3",
        {"pid": 1001},
    ),
    "a wrong cuDNN in LD_LIBRARY_PATH": Trouble(
        "mismatch-shadowed",
        "mismatch",
        both(linked(), setting("LD_LIBRARY_PATH", f"{LIB}:$LD_LIBRARY_PATH")),
        "export LD_LIBRARY_PATH=/opt/own/lib; sed -i '12s/^/# /' /home/anna/.bashrc",
        {"pid": 1001},
    ),
    "a wrong NCCL in every session": Trouble(
        "mismatch-shadowed",
        "mismatch",
        both(
            linked("2.18.3", "nccl", "2"),
            of_job({"environment": {"LD_LIBRARY_PATH": ""}}),
            setting("LD_LIBRARY_PATH", LIB),
        ),
        "unset LD_LIBRARY_PATH; sed -i '12s/^/# /' /home/anna/.bashrc",
    ),
    "the stub of libcuda": Trouble(
        "mismatch-stub",
        "mismatch",
        of_job({"environment": {"LD_LIBRARY_PATH": f"{LIB}/stubs:/opt/own/lib"}}),
        "export LD_LIBRARY_PATH=/opt/own/lib",
        {"pid": 1001},
    ),
    "another driver's libcuda": Trouble(
        "mismatch-driver-library",
        "mismatch",
        linked("535.104.05", "cuda", "1", "/usr/local/cuda-12.2/compat"),
        "export LD_LIBRARY_PATH=/opt/own/lib",
        {"pid": 1001},
    ),
    "cuDNN twice in one process": Trouble(
        "mismatch-loaded-twice",
        "mismatch",
        of_job({"libraries": [f"{cases.SITE}/nvidia/cudnn/lib/libcudnn.so.9", "/usr/lib/libcudnn_ops.so.9"]}),
        "unset LD_LIBRARY_PATH",
        {"pid": 1001},
    ),
    "CUDA_HOME leads nowhere": Trouble(
        "mismatch-cuda-home",
        "mismatch",
        of_job({"environment": {"CUDA_HOME": "/usr/local/cuda-11.8"}}),
        "export CUDA_HOME=/usr/local/cuda-12.8",
        {"pid": 1001},
    ),
    "a second CUDA in CUDA_HOME": Trouble(
        "mismatch-cuda-home",
        "mismatch",
        both(
            of_job({"environment": {"CUDA_HOME": "/usr/local/cuda-11.8"}}),
            also(
                {
                    "toolkits": [
                        {
                            "prefix": "/usr/local/cuda-11.8",
                            "version": "11.8.0",
                            "own": True,
                            "settings": ["/etc/ld.so.conf.d/cuda-11-8.conf"],
                        },
                        {"prefix": "/usr/local/cuda-12.8", "version": "12.8.1", "own": False, "settings": []},
                    ]
                }
            ),
        ),
        "export CUDA_HOME=/usr/local/cuda-12.8",
        {"pid": 1001},
    ),
    "a CUDA newer than the driver": Trouble(
        "mismatch-driver",
        "mismatch",
        fact("nvml.cuda_version", "11.8"),
        "https://download.pytorch.org/whl/cu118",
        {"pid": 1001},
    ),
    "PyTorch for processors": Trouble(
        "mismatch-cpu-build",
        "mismatch",
        environment(packages={"torch": "2.9.1+cpu"}, torch_cuda="None"),
        "https://download.pytorch.org/whl/cu13",
        {"pid": 1001},
    ),
    "no kernels for an old GPU": Trouble(
        "mismatch-architecture",
        "mismatch",
        both(capability("6.0"), environment(packages={"torch": "2.9.1+cu128"})),
        "pip install --force-reinstall torch==",
        {"pid": 1001},
    ),
    "two majors of one wheel": Trouble(
        "mismatch-twice-installed",
        "mismatch",
        environment(packages={"nvidia-cudnn-cu11": "8.9.6.50"}),
        "pip uninstall -y nvidia-cudnn-cu11",
        {"pid": 1001},
    ),
    "PyTorch in the home": Trouble(
        "mismatch-user-site",
        "mismatch",
        environment(user_packages={"torch": "2.1.0"}),
        "export PYTHONNOUSERSITE=1",
        {"pid": 1001},
    ),
    "packages of another Python": Trouble(
        "mismatch-python-path",
        "mismatch",
        of_job({"environment": {"PYTHONPATH": "/opt/lib/python3.9/site-packages"}}),
        "unset PYTHONPATH",
        {"pid": 1001},
    ),
    "cuDNN twice on the system": Trouble(
        "mismatch-linker-twice",
        "mismatch",
        also(
            {
                "linker": [
                    linked_by_system("/usr/lib/libcudnn.so.9", "9.14.0"),
                    linked_by_system(
                        f"{LIB}/libcudnn.so.9", "9.1.0", f"{LIB}/libcudnn.so.9", f"{LIB}/libcudnn.so.9.1.0"
                    ),
                ]
            }
        ),
        f'{{"cuda_remove_strays": ["{LIB}/libcudnn.so.9", "{LIB}/libcudnn.so.9.1.0"]}}',
    ),
    "cuDNN twice of packages": Trouble(
        "mismatch-linker-twice",
        "mismatch",
        also(
            {
                "linker": [
                    linked_by_system("/usr/lib/libcudnn.so.9", "9.14.0"),
                    linked_by_system("/usr/lib/other/libcudnn.so.9", "9.1.0"),
                ]
            }
        ),
        "dpkg -S /usr/lib/other/libcudnn.so.9",
    ),
    "a .run toolkit is the default": Trouble(
        "mismatch-own-toolkit",
        "mismatch",
        both(
            fact("cuda.default", "/usr/local/cuda-11.8"),
            also(
                {
                    "toolkits": [
                        {
                            "prefix": "/usr/local/cuda-11.8",
                            "version": "11.8.0",
                            "own": True,
                            "settings": ["/etc/ld.so.conf.d/cuda-11-8.conf"],
                        },
                        {"prefix": "/usr/local/cuda-12.8", "version": "12.8.1", "own": False, "settings": []},
                    ]
                }
            ),
        ),
        '["/usr/local/cuda-11.8", "/etc/ld.so.conf.d/cuda-11-8.conf"]',
    ),
    "a directory that is gone": Trouble(
        "mismatch-missing-directory",
        "mismatch",
        both(
            of_job({"environment": {"LD_LIBRARY_PATH": "/usr/local/cuda/lib"}}),
            also({"directories": [{"path": "/usr/local/cuda/lib", "there": False, "found": []}]}),
        ),
        "unset LD_LIBRARY_PATH",
        {"pid": 1001},
    ),
    "each kernel is waited for": Trouble(
        "slow-variable",
        "slow",
        of_job({"environment": {"CUDA_LAUNCH_BLOCKING": "1"}}),
        "unset CUDA_LAUNCH_BLOCKING",
        {"pid": 1001},
    ),
    "peers may not be used": Trouble(
        "slow-variable",
        "slow",
        of_job({"environment": {"NCCL_P2P_DISABLE": "1"}}),
        "unset NCCL_P2P_DISABLE",
        {"pid": 1001},
    ),
    "a shared GPU": Trouble("slow-shared-gpu", "slow", shared, "CUDA_VISIBLE_DEVICES"),
    "another user's load": Trouble(
        "slow-other-load",
        "slow",
        also({"busy": [{"pid": 2001, "user": "bob", "command": "make", "cores": 40.0, "keeper": "make.service"}]}),
        "Ask bob to let it give way; systemctl status make.service",
        {"pid": 1001},
    ),
    "one processor": Trouble(
        "slow-few-cores", "slow", of_job({"cpus": 1}), "taskset -a -p -c 0-63 1001", {"pid": 1001}
    ),
    "a container's limit": Trouble(
        "slow-throttled",
        "slow",
        of_job({"throttled": 0.6, "container": "0123456789ab"}),
        "docker update --cpus 0 0123456789ab",
        {"pid": 1001},
    ),
    "a slow NFS": Trouble(
        "slow-storage",
        "slow",
        both(
            also({"mounts": [{"mount": "/data", "type": "nfs4", "source": "server:/data", "milliseconds": 180.0}]}),
            of_job({"remote": ["/data"]}),
        ),
        "rsync -a /data/",
        {"pid": 1001},
    ),
    "a GPU without data": Trouble("slow-starved-gpu", "slow", starved, "num_workers", {"pid": 1001}),
    "processors that save power": Trouble(
        "slow-governor",
        "slow",
        both(machine(governors={"powersave": 64}), fact("tuning.values.cpu_governor", "powersave")),
        "cpupower frequency-set -g performance",
    ),
    "a program in swap": Trouble("slow-swapping", "slow", of_job({"swap_mib": 9000}), "fewer workers", {"pid": 1001}),
    "waiting for disks": Trouble(
        "slow-pressure", "slow", machine(pressure={"cpu": 1.0, "io": 60.0, "memory": 0.0}), "iotop"
    ),
    "no compiler": Trouble(
        "import-compiler",
        "import",
        machine(compilers={"cc": None, "gcc": None, "c++": None}),
        "apt-get install -y build-essential",
        {"pid": 1001},
    ),
    "no headers": Trouble(
        "import-headers", "import", environment(headers=False), "apt-get install -y python3.11-dev", {"pid": 1001}
    ),
    "64 MiB of shared memory": Trouble(
        "import-shared-memory",
        "import",
        of_job({"container": "0123456789ab", "shared_memory": {"size_mib": 64, "free_mib": 60}}),
        "--shm-size",
        {"pid": 1001},
    ),
    "full shared memory": Trouble(
        "import-shared-memory",
        "import",
        machine(shared_memory={"size_mib": 32768, "free_mib": 20}),
        'fuser -s "$file" || rm',
    ),
    "little locked memory": Trouble(
        "import-memlock",
        "import",
        of_job({"limits": {"memlock": 8 << 20, "nofile": 1048576}}),
        "prlimit --memlock=unlimited --pid 1001",
        {"pid": 1001},
    ),
    "no open files left": Trouble(
        "import-open-files",
        "import",
        of_job({"files": 1000, "limits": {"memlock": "unlimited", "nofile": 1024}}),
        "prlimit --nofile=65536",
        {"pid": 1001},
    ),
    "no programs in /tmp": Trouble(
        "import-temporary", "import", machine(tmp_noexec=True), "export TMPDIR", {"pid": 1001}
    ),
    "no device of the unified memory": Trouble(
        "import-devices",
        "import",
        machine(devices={"/dev/nvidia0": True, "/dev/nvidiactl": True}),
        "nvidia-modprobe -u",
    ),
    "closed devices": Trouble(
        "import-devices",
        "import",
        machine(devices={"/dev/nvidia0": False, "/dev/nvidiactl": True, "/dev/nvidia-uvm": True}),
        "chmod 0666 /dev/nvidia0",
    ),
    "a taken port": Trouble("network-port-taken", "network", BOB_LISTENS, "whose process 2001 is", {"error": TAKEN}),
    "a taken port of the job": Trouble("network-port-taken", "network", BOB_LISTENS, "--master-port", {"pid": 1001}),
    "an unknown name": Trouble(
        "network-name",
        "network",
        also({"names": [{"name": "node9", "addresses": [], "problem": "Name or service not known"}]}),
        "/etc/hosts",
    ),
    "an own name that is unknown": Trouble(
        "network-name",
        "network",
        also({"hostname": {"name": "node1", "addresses": [], "problem": "Name or service not known"}}),
        "echo '127.0.1.1 node1' >> /etc/hosts",
    ),
    "an own name that leads back": Trouble(
        "network-loopback-name",
        "network",
        both(
            also({"hostname": {"name": "node1", "addresses": ["127.0.1.1"], "problem": None}}),
            lambda found, _facts: [one["environment"].update(WORLD_SIZE="16") for one in found["processes"][1:]],
        ),
        "export GLOO_SOCKET_IFNAME=enp1s0f0np0",
        {"pid": 1001},
    ),
    "nobody listens": Trouble(
        "network-server", "network", server("refused", host="node1", port=29500), "rank 0", {"pid": 1001}
    ),
    "a firewall": Trouble("network-server", "network", server("no answer"), "nft list ruleset"),
    "a certificate that ran out": Trouble("network-certificate", "network", server(certificate=EXPIRED), "renew it"),
    "a wrong clock": Trouble(
        "network-certificate",
        "network",
        both(
            server(certificate={**EXPIRED, "problem": "certificate is not yet valid"}),
            fact("system.clock_synchronized", value=False),
        ),
        "timedatectl set-ntp true",
    ),
    "another name's certificate": Trouble(
        "network-certificate",
        "network",
        server(certificate={**EXPIRED, "problem": "Hostname mismatch, certificate is not valid for 'hub'"}),
        "subjectAltName",
    ),
    "an unknown authority": Trouble(
        "network-certificate",
        "network",
        server(certificate={**EXPIRED, "problem": "unable to get local issuer certificate"}),
        "base_ca_certificates",
    ),
    "a dead proxy": Trouble(
        "network-proxy",
        "network",
        both(
            server("refused", host="proxy", port=3128),
            also({"proxies": [{"variable": "https_proxy", "host": "proxy", "port": 3128}]}),
        ),
        "unset https_proxy",
    ),
    "an interface that is not there": Trouble(
        "network-interface",
        "network",
        of_job({"environment": {"NCCL_SOCKET_IFNAME": "ib0"}}),
        "export NCCL_SOCKET_IFNAME=enp1s0f0np0",
        {"pid": 1001},
    ),
    "a clock that nobody keeps": Trouble(
        "network-clock",
        "network",
        fact("system.clock_synchronized", value=False),
        "systemctl enable --now chrony.service",
    ),
    "a link of half its width": Trouble("pcie-width", "slow", fact("nvml.gpus.0.pcie.width", 8), ""),
    "a hot GPU": Trouble("clock-events", "slow", fact("nvml.gpus.0.clocks.event_reasons", 0x40), "Check fans"),
}
