"""Troubles of a job: memory, hangs, slowness; see making.py."""

from .making import (
    DUMPS,
    NOTHING,
    OOM,
    Trouble,
    also,
    both,
    fact,
    grows,
    low_power,
    machine,
    no_rank,
    of_job,
    other_holds,
    shared,
    starved,
    unexplained,
)

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
    "a job that the watch saw fail": Trouble(
        "hang-noted",
        "hang",
        also(
            {
                "noted": [
                    {
                        "time": "2026-11-26T08:00:00Z",
                        "job": 77,
                        "seen": "crash",
                        "kind": "node",
                        "cause": "XID 79: GPU has fallen off the bus",
                        "nodes": 2,
                        "evidence": [],
                    }
                ]
            }
        ),
        "verify.yml",
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
    "a link of half its width": Trouble("pcie-width", "slow", fact("nvml.gpus.0.pcie.width", 8), ""),
    "a hot GPU": Trouble("clock-events", "slow", fact("nvml.gpus.0.clocks.event_reasons", 0x40), "Check fans"),
}
