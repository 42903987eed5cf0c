"""Strays of CUDA: each guard that keeps one in its place, moving aside, and the way back."""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.child import DONE, Child
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.cuda import strays
from ansible_collections.gpulab.node.plugins.modules import cuda_strays

TREE, CONF = "/usr/local/cuda-11.8", "/etc/ld.so.conf.d/cuda-11-8.conf"
CUDNN = "/usr/local/lib/libcudnn.so.8"


@pytest.fixture
def tree(tmp_path):
    """Return a node with CUDA of a .run file, a cuDNN beside packages, and a toolkit of a package."""

    class Tree:
        root = tmp_path

        def put(self, path, text=""):
            file = tmp_path / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            return file

        def link(self, path, target):
            file = tmp_path / path.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.symlink_to(target)

        def there(self, path):
            return os.path.lexists(tmp_path / path.lstrip("/"))

    found = Tree()
    found.put(f"{TREE}/bin/nvcc")
    found.put(CONF, "# of the installer\n/usr/local/cuda-11.8/targets/x86_64-linux/lib\n")
    found.put("/usr/local/lib/libcudnn.so.8.9.7")
    found.link(CUDNN, "libcudnn.so.8.9.7")
    found.put("/usr/local/cuda-12.8/bin/nvcc")
    found.put("/var/lib/dpkg/info/cuda-nvcc-12-8.list", "/usr/local/cuda-12.8\n/usr/local/cuda-12.8/bin/nvcc\n")
    return found


def commands(answers=None):
    """Return what stands for dpkg: (exit status, output, errors) by the first two words."""
    known = {"dpkg --listfiles": (1, "", ""), "dpkg --simulate": (0, "", ""), **(answers or {})}
    return lambda argv: known[" ".join(argv[:2])]


def of(tree, *names, answers=None):
    return strays.Strays(Node(tree.root), commands(answers), names)


def refused(tree, *names, keeps=(), links=(), answers=None):
    """Return code and cause of the refusal."""
    with pytest.raises(Refusal) as found:
        of(tree, *names, answers=answers).judge(keeps, links)
    return found.value.code, found.value.cause


def test_what_nothing_needs_may_go(tree):
    of(tree, TREE, CONF, CUDNN, "/usr/local/lib/libcudnn.so.8.9.7", "/usr/local/gone", "no-package").judge([], [])


UNFIT = {
    "the top itself": (lambda _tree: None, "/usr/local", "not below"),
    "a system directory": (lambda tree: tree.put("/usr/lib/cuda/bin/nvcc"), "/usr/lib/cuda", "not below"),
    "a home": (lambda tree: tree.put("/home/anna/cuda/bin/nvcc"), "/home/anna/cuda", "not below"),
    "another program": (lambda tree: tree.put("/opt/matlab/bin/matlab"), "/opt/matlab", "not a CUDA toolkit"),
    "conda": (
        lambda tree: (tree.put("/opt/conda/conda-meta/history"), tree.put("/opt/conda/lib/libcudart.so.12")),
        "/opt/conda",
        "Python or conda environment",
    ),
    "a link": (lambda tree: tree.link("/usr/local/cuda-9", TREE.rpartition("/")[2]), "/usr/local/cuda-9", "a link"),
    "below a link": (lambda tree: tree.link("/opt/n", "../usr/local"), "/opt/n/cuda-11.8", "its directory is a link"),
    "another file": (
        lambda tree: tree.put("/usr/local/lib/libpng.so.1"),
        "/usr/local/lib/libpng.so.1",
        "not a file of CUDA",
    ),
    "a library elsewhere": (
        lambda tree: tree.link("/usr/local/lib/libnccl.so.2", "/data/libnccl.so.2"),
        "/usr/local/lib/libnccl.so.2",
        "a link to another place",
    ),
    "gpulab's": (lambda tree: tree.put(f"{TREE}/gpulab.json"), TREE, "gpulab keeps this toolkit"),
    "settings of more": (lambda tree: tree.put(CONF, f"{TREE}/lib64\n/opt/own\n"), CONF, "more in it"),
    "settings of nothing": (lambda tree: tree.put(CONF, "# nothing\n"), CONF, "more in it"),
}


@pytest.mark.parametrize(("change", "name", "reason"), UNFIT.values(), ids=UNFIT)
def test_what_is_no_stray_is_refused(tree, change, name, reason):
    change(tree)
    code, cause = refused(tree, name)
    assert code == "C006"
    assert name in cause
    assert reason in cause


def test_settings_are_for_the_strays_that_are_named_with_them(tree):
    assert refused(tree, CONF)[0] == "C006"
    of(tree, CONF, TREE).judge([], [])


@pytest.mark.parametrize(("name", "keeps"), [(TREE, [TREE]), ("libcudnn9", ["libcudnn9"])])
def test_what_the_plan_has_is_refused(tree, name, keeps):
    assert refused(tree, name, keeps=keeps)[0] == "C006"


MOUNTS = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"


@pytest.mark.parametrize(
    "line", [f"21 20 8:2 / {TREE}/lib64 rw - ext4 /dev/sdb1 rw", f"21 20 8:1 {TREE} /srv/cuda rw - ext4 /dev/sda1 rw"]
)
def test_a_mount_in_it_or_of_it_is_refused(tree, line):
    tree.put("/proc/self/mountinfo", MOUNTS)
    of(tree, TREE, CONF).judge([], [])
    tree.put("/proc/self/mountinfo", f"{MOUNTS}{line}\n")
    code, cause = refused(tree, TREE, CONF)
    assert code == "C006"
    assert "is a mount of it" in cause


def test_what_a_package_has_files_in_names_the_package(tree):
    code, cause = refused(tree, "/usr/local/cuda-12.8")
    assert code == "C008"
    assert cause.endswith("the package cuda-nvcc-12-8.")


def test_what_an_rpm_has_files_in_names_the_package(tree):
    (tree.root / "var/lib/dpkg/info/cuda-nvcc-12-8.list").unlink()
    (tree.root / "var/lib/dpkg/info").rmdir()
    answers = {"rpm --all": (0, "cuda-nvcc-12-8\t/usr/local/cuda-12.8/bin/nvcc\n", "")}
    assert refused(tree, "/usr/local/cuda-12.8", answers=answers)[0] == "C008"


def test_a_library_that_a_package_calls_by_its_former_name_is_the_packages(tree):
    tree.put("/usr/lib/x86_64-linux-gnu/libnccl.so.2")
    tree.put("/var/lib/dpkg/info/libnccl2:amd64.list", "/lib/x86_64-linux-gnu/libnccl.so.2\n")
    code, cause = refused(tree, "/usr/lib/x86_64-linux-gnu/libnccl.so.2")
    assert code == "C008"
    assert cause.endswith("the package libnccl2.")


LEADS = {
    "the linker": ("/etc/ld.so.conf.d/own.conf", f"/opt/own\n{TREE}/lib64\n"),
    "its main file": ("/etc/ld.so.conf", f"{TREE}/lib64\n"),
    "sessions": ("/etc/environment", f"PATH={TREE}/bin:/usr/bin\n"),
    "a profile": ("/etc/profile.d/c.sh", f"export CUDA_HOME='{TREE}'\nx=1\n"),
}
LINKS = {"/usr/local/cuda": "cuda-11.8", "/usr/local/bin/nvcc": f"{TREE}/bin/nvcc"}


@pytest.mark.parametrize(("file", "text"), LEADS.values(), ids=LEADS)
def test_what_a_setting_leads_to_names_the_file(tree, file, text):
    tree.put(file, text)
    assert refused(tree, TREE, CONF) == ("C009", f"{file} still leads to {TREE}.")


@pytest.mark.parametrize(("link", "target"), LINKS.items())
def test_what_a_link_leads_to_names_the_link(tree, link, target):
    tree.link(link, target)
    assert refused(tree, TREE, CONF) == ("C009", f"{link} still leads to {TREE}.")


def test_what_only_seems_to_lead_to_it_is_no_lead(tree):
    tree.put("/etc/environment", f"# PATH={TREE}/bin\nA=/data{TREE}/bin\nB={TREE}.1\n")
    of(tree, TREE, CONF).judge([], [])


def test_a_link_that_the_role_points_elsewhere_is_left_out(tree):
    tree.link("/usr/local/cuda", "cuda-11.8")
    of(tree, TREE, CONF).judge([], ["/usr/local/cuda"])


def test_a_package_that_others_need_is_refused_with_their_names(tree):
    needed = "dpkg: dependency problems prevent removal of libcudnn8:\n libcudnn8-dev depends on libcudnn8."
    answers = {"dpkg --listfiles": (0, "/usr/lib/libcudnn.so.8\n", ""), "dpkg --simulate": (1, "", needed)}
    code, cause = refused(tree, "libcudnn8", answers=answers)
    assert code == "C010"
    assert "libcudnn8-dev depends on libcudnn8" in cause


READY = "import sys, time; {}; print('ready', flush=True); time.sleep(60)"
USES = {
    "open": "f = open(sys.argv[1])",
    "in memory": "import mmap; f = open(sys.argv[1]); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); f.close()",
    "as its directory": "import os; os.chdir(os.path.dirname(sys.argv[1]))",
}


def used(trees, files=None):
    child = Child(lambda emit: strays._users(Node(), trees, files or {}, emit), 30)  # noqa: SLF001 - it needs a real /proc
    assert child.wait() == DONE, child.reason
    return child.messages


@pytest.mark.slow
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_who_uses_a_stray_is_named(use, tmp_path, start):
    library = tmp_path / "cuda-11.8/lib64/libcudart.so.11.0"
    library.parent.mkdir(parents=True)
    library.write_text("x")
    top = str(tmp_path / "cuda-11.8")
    assert used([top]) == []
    program = start([sys.executable, "-c", READY.format(use), str(library)])
    assert [(one["path"], one["pid"]) for one in used([top])] == [(top, program.pid)]
    assert used([f"{top}.1"]) == []
    if "chdir" not in use:
        assert [one["path"] for one in used([], {str(library): "libcudart"})] == ["libcudart"]


IN_NAMESPACE = {
    "its own at the same place": ("mount -t tmpfs tmpfs {top} && touch {top}/f", "f = open('{top}/f')", False),
    "the node's at another place": ("mount --bind {top} {other}", "pass", True),
}


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize(("mount", "use", "uses"), IN_NAMESPACE.values(), ids=IN_NAMESPACE)
def test_what_a_container_has_is_told_from_the_nodes(mount, use, uses, tmp_path, start):
    top, other = tmp_path / "cuda-11.8", tmp_path / "other"
    top.mkdir()
    other.mkdir()
    line = f'{mount} && exec {sys.executable} -c "{READY.format(use)}"'.format(top=top, other=other)
    try:
        program = start(["unshare", "--mount", "sh", "-c", line])
    except AssertionError:
        pytest.skip("no mount namespace here")
    assert [one["pid"] for one in used([str(top)])] == ([program.pid] if uses else [])


def test_a_stray_in_use_is_refused(tree, monkeypatch):
    monkeypatch.setattr(strays, "_users", lambda *args: args[-1]({"path": TREE, "pid": 7, "command": "python3"}))
    code, cause = refused(tree, TREE, CONF)
    assert code == "C007"
    assert cause == f"{TREE} is in use by python3 (PID 7)."


def test_what_cannot_be_looked_into_is_refused(tree, monkeypatch):
    monkeypatch.setattr(strays, "_SECONDS", 0.2)
    monkeypatch.setattr(strays, "_users", lambda *_args: time.sleep(60))
    assert refused(tree, TREE, CONF)[0] == "C007"


def module(names=(), *, check_mode=False, **params):
    """Return what the module is given, without Ansible."""
    given = {"names": list(names), "keeps": [], "links": [], "judge": False, "restore": False, **params}
    return SimpleNamespace(params=given, check_mode=check_mode, run_command=commands())


@pytest.fixture
def operate(tree, monkeypatch):
    monkeypatch.setattr(cuda_strays, "Node", lambda: Node(tree.root))
    monkeypatch.setattr(cuda_strays.evidence, "note", lambda *_args, **_things: None)
    return lambda *args, **params: cuda_strays.operate(module(*args, **params))


def test_moving_aside_and_back(tree, operate):
    names = [TREE, CONF, CUDNN]
    foretold = operate(names, check_mode=True)
    assert foretold["changed"] is True
    assert all(map(tree.there, names))
    assert foretold == operate(names)
    assert not any(map(tree.there, names))
    assert tree.there("/usr/local/.gpulab-strays/cuda-11.8/bin/nvcc")
    assert operate(names)["changed"] is False

    assert operate(restore=True, check_mode=True)["changed"] is True
    assert operate(restore=True)["changed"] is True
    assert all(map(tree.there, names))
    assert not tree.there("/usr/local/.gpulab-strays")
    assert not tree.there(strays.MEMORY)
    assert operate(restore=True)["changed"] is False


def test_only_judging_changes_nothing(tree, operate):
    assert operate([TREE, CONF], judge=True) == {"changes": []}
    assert tree.there(TREE)


def test_nothing_is_moved_where_one_is_refused(tree, operate):
    with pytest.raises(Refusal):
        operate([CUDNN, "/usr/local/cuda-12.8"])
    assert tree.there(CUDNN)


def test_one_that_came_again_loses_neither(tree, operate):
    operate([TREE, CONF])
    tree.put(f"{TREE}/bin/nvcc", "newer")
    operate([TREE, CONF])
    assert (tree.root / "usr/local/.gpulab-strays/cuda-11.8.2/bin/nvcc").read_text() == "newer"
    operate(restore=True)
    assert (tree.root / f".{TREE}/bin/nvcc").read_text() == "newer"
    assert tree.there("/usr/local/.gpulab-strays/cuda-11.8/bin/nvcc")


def test_what_has_taken_its_place_stays(tree, operate):
    operate([CUDNN])
    tree.put(CUDNN, "of a package")
    assert operate(restore=True)["changed"] is False
    assert (tree.root / f".{CUDNN}").read_text() == "of a package"


def test_what_a_power_cut_left_is_nothing_to_put_back(tree, operate):
    (tree.root / "var/lib/gpulab").mkdir(parents=True)
    tree.put(strays.MEMORY, f'{{"/usr/local/.gpulab-strays/cuda-11.8": "{TREE}"}}')
    assert operate(restore=True)["changed"] is False
    assert operate([TREE, CONF])["changed"] is True
