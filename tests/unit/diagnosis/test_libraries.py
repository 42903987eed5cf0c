"""What of CUDA, cuDNN and NCCL a program finds, read from made files; nothing is executed."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.diagnosis import libraries

HOME = "/home/anna"
VENV = f"{HOME}/venv"
SITE = f"{VENV}/lib/python3.12/site-packages"
LDCONFIG = """\
2 libs found in cache `/etc/ld.so.cache'
\tlibcudnn.so.8 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcudnn.so.8
\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1
"""


@pytest.fixture
def read(tree):
    """Return what reads the node of the test: its messages by their key."""

    def run(*searched):
        emitted = []
        libraries.read(tree.node(), [VENV], HOME, list(searched), emitted.append)
        return {key: value for message in emitted for key, value in message.items()}

    return run


def test_a_wrong_cudnn_on_the_path_is_seen_with_its_version(tree, read):
    tree.file("/opt/old/lib/libcudnn.so.8.9.7").link("/opt/old/lib/libcudnn.so.8", "libcudnn.so.8.9.7")
    found = read("/opt/old/lib", "/opt/gone/lib")["directories"]
    assert found[0]["found"] == [
        {"library": "cudnn", "major": "8", "path": "/opt/old/lib/libcudnn.so.8", "version": "8.9.7"}
    ]
    assert (found[1]["there"], found[1]["found"]) == (False, [])


def test_settings_have_their_file_and_line(tree, read):
    tree.file(
        f"{HOME}/.bashrc",
        "# mine\nexport CUDA_HOME=/usr/local/cuda-11.8\n  export LD_LIBRARY_PATH=/opt/old/lib:$X # old\n",
    )
    tree.file("/etc/profile.d/cuda.sh", 'export LD_LIBRARY_PATH="/usr/local/cuda/lib64:$LD_LIBRARY_PATH"; true\n')
    tree.file("/etc/environment", "CUDA_PATH=/usr/local/cuda\n#CUDA_HOME=/commented\n")
    found = read()
    assert [(one["name"], one["value"], one["file"], one["line"]) for one in found["settings"]] == [
        ("CUDA_PATH", "/usr/local/cuda", "/etc/environment", 1),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:$LD_LIBRARY_PATH", "/etc/profile.d/cuda.sh", 1),
        ("CUDA_HOME", "/usr/local/cuda-11.8", f"{HOME}/.bashrc", 2),
        ("LD_LIBRARY_PATH", "/opt/old/lib:$X", f"{HOME}/.bashrc", 3),
    ]
    assert [one["path"] for one in found["directories"]] == ["/usr/local/cuda/lib64", "/opt/old/lib"]


def test_toolkits_of_a_run_file_are_told_from_packages(tree, read):
    for version, own in (("11.8", True), ("12.8", False)):
        tree.file(f"/usr/local/cuda-{version}/bin/nvcc")
        tree.file(f"/usr/local/cuda-{version}/version.json", f'{{"cuda": {{"version": "{version}.0"}}}}')
        if own:
            tree.file(f"/usr/local/cuda-{version}/bin/cuda-uninstaller")
    tree.file("/etc/ld.so.conf.d/cuda-11-8.conf", "/usr/local/cuda-11.8/targets/x86_64-linux/lib\n")
    tree.file("/etc/ld.so.conf.d/own.conf", "/usr/local/cuda-11.8/lib64\n/opt/own\n")
    tree.prints("/usr/local/cuda-11.8/bin/nvcc", "release 11.8, V11.8.89")
    tree.prints("/usr/local/cuda-12.8/bin/nvcc", "release 12.8, V12.8.93")
    found = {one["prefix"]: (one["own"], one["settings"]) for one in read()["toolkits"]}
    assert found == {
        "/usr/local/cuda-11.8": (True, ["/etc/ld.so.conf.d/cuda-11-8.conf"]),
        "/usr/local/cuda-12.8": (False, []),
    }


def test_the_linkers_cache_is_read(tree, read):
    tree.prints("ldconfig -p", LDCONFIG).file("/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7")
    tree.link("/usr/lib/x86_64-linux-gnu/libcudnn.so.8", "libcudnn.so.8.9.7")
    found = read()["linker"]
    assert [(one["library"], one["version"]) for one in found] == [("cudnn", "8.9.7"), ("cuda", None)]
    assert [one["files"] for one in found] == [[], []]


def test_all_files_of_a_library_that_no_package_brought_are_named(tree, read):
    real = "/usr/local/cuda-11.8/targets/x86_64-linux/lib"
    names = ["libcudnn.so.8", "libcudnn_ops_infer.so.8", "libcudnn_static.a"]
    for name in [*names, "libcudart.so.11", "libcudnnx.so.1"]:
        tree.file(f"{real}/{name}")
    tree.link("/usr/local/cuda-11.8/lib64", "targets/x86_64-linux/lib")
    tree.prints("ldconfig -p", "\tlibcudnn.so.8 (libc6,x86-64) => /usr/local/cuda-11.8/lib64/libcudnn.so.8\n")
    (found,) = read()["linker"]
    assert found["files"] == [f"{real}/{name}" for name in names]


def environment(tree):
    tree.file(f"{VENV}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = false\n")
    tree.file(f"{SITE}/torch-2.9.1+cu128.dist-info/METADATA").file(f"{SITE}/requests-2.32.5.dist-info/METADATA")
    tree.file(f"{SITE}/torch/version.py", "__version__ = '2.9.1+cu128'\ncuda: Optional[str] = '12.8'\n")
    tree.file(f"{SITE}/nvidia_cudnn_cu12-9.10.2.21.dist-info/METADATA")
    tree.file(f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9")
    tree.file(f"{HOME}/.local/lib/python3.12/site-packages/torch-1.13.1.dist-info/METADATA")


def test_an_environment_is_read_from_its_files(tree, read):
    environment(tree)
    found = read()["environments"][0]
    assert found["packages"] == {"torch": "2.9.1+cu128", "nvidia-cudnn-cu12": "9.10.2.21"}
    assert found["torch_cuda"] == "12.8"
    assert [(one["library"], one["version"]) for one in found["libraries"]] == [("cudnn", "9.10.2.21")]
    assert found["user_packages"] == {}  # an isolated environment does not see them
    assert found["headers"] is False
    tree.file("/usr/include/python3.12/Python.h")
    assert read()["environments"][0]["headers"] is True


def test_an_environment_that_is_open_sees_the_users_own_packages(tree, read):
    environment(tree)
    tree.file(f"{VENV}/pyvenv.cfg", "home = /usr/bin\ninclude-system-site-packages = true\n")
    assert read()["environments"][0]["user_packages"] == {"torch": "1.13.1"}


def test_a_pytorch_without_cuda_says_so(tree, read):
    environment(tree)
    tree.file(f"{SITE}/torch/version.py", "cuda: Optional[str] = None\n")
    assert read()["environments"][0]["torch_cuda"] == "None"


def test_an_environment_that_is_not_there_has_nothing(read):
    found = read()["environments"][0]
    assert (found["python"], found["packages"], found["headers"]) == (None, {}, True)
