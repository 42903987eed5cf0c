"""Troubles of what a job needs: libraries, a compiler, limits, the network; see making.py."""

from . import cases
from .making import (
    BOB_LISTENS,
    EXPIRED,
    LIB,
    TAKEN,
    Trouble,
    also,
    both,
    capability,
    environment,
    fact,
    linked,
    linked_by_system,
    machine,
    of_job,
    server,
    setting,
)

TROUBLES = {
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
}
