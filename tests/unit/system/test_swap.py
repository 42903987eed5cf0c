"""Swap that is declared: what is done to get there, what is refused, and the module at work on a real file."""

import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import mount_table
from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.storage.blank import Look
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import Content, Devices
from ansible_collections.gpulab.node.plugins.module_utils.system import swap
from ansible_collections.gpulab.node.plugins.module_utils.system.swap import Place, Step
from ansible_collections.gpulab.node.plugins.modules import swap_space

FILE, BY_ID = "/swapfile", "/dev/disk/by-id/nvme-X-part3"
ROOM = Place(FILE, filesystem="ext4", size_mib=100_000, free_mib=50_000)
MADE, ON = [Step(swap.MAKE, FILE), Step(swap.ON, FILE)], [Step(swap.ON, FILE)]

STEPS = {
    "a new file": (ROOM, {}, {}, MADE),
    "a file of swap that is off": (Place(FILE, swap=True), {}, {}, ON),
    "a file that is on": (Place(FILE, swap=True, active=True), {FILE: "make"}, {FILE: (16384, 0)}, []),
    "a blank partition": (Place(BY_ID, partition=True), {}, {}, [Step(swap.FORMAT, BY_ID), Step(swap.ON, BY_ID)]),
    "a partition of swap": (Place(BY_ID, partition=True, swap=True), {}, {}, [Step(swap.ON, BY_ID)]),
    "none any more": (None, {FILE: "make"}, {FILE: (1, 0)}, [Step(swap.OFF, FILE), Step(swap.DELETE, FILE)]),
    "a file of somebody's that was switched on": (None, {FILE: "on"}, {FILE: (1, 0)}, [Step(swap.OFF, FILE)]),
    "switched off by hand": (None, {FILE: "make"}, {}, [Step(swap.DELETE, FILE)]),
    "swap of somebody's": (None, {}, {"/dev/sda2": (1, 0)}, []),
    "another place": (ROOM, {BY_ID: "format"}, {BY_ID: (1, 0)}, [Step(swap.OFF, BY_ID), *MADE]),
}


@pytest.mark.parametrize(("place", "former", "running", "steps"), STEPS.values(), ids=STEPS)
def test_steps(place, former, running, steps):
    assert swap.plan(place, 16384, former, running) == steps


REFUSED = {
    "another file": (Place(FILE, holds="another file"), "H098"),
    "a partition with data": (Place(BY_ID, partition=True, holds="ext4"), "H098"),
    "no room": (Place(FILE, filesystem="ext4", size_mib=100_000, free_mib=16384 + 9_999), "H099"),
    "btrfs": (Place(FILE, filesystem="btrfs", size_mib=100_000, free_mib=50_000), "H100"),
}


@pytest.mark.parametrize(("place", "code"), REFUSED.values(), ids=REFUSED)
def test_nothing_is_made_over_anything(place, code):
    with pytest.raises(Refusal) as caught:
        swap.plan(place, 16384, {}, {})
    assert caught.value.code == code


@pytest.mark.parametrize(("used", "fits"), [(899, True), (901, False)])
def test_what_does_not_fit_in_the_memory_stays_in_the_swap(used, fits):
    assert swap.too_much(used, 1000) is not fits


def test_active_swaps_and_their_names(tree):
    header = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
    tree.file("/proc/swaps", header + "/dev/sda3 partition 16777212 2048 -2\n/a\\040b file 1024 0 -3\n")
    tree.link("/dev/disk/by-uuid/5d-1", "../../sda3").link("/dev/disk/by-id/x-part3", "../../sda3").file("/dev/sda3")
    tree.link("/dev/disk/by-uuid/7", "../../sda4").file("/dev/sda4")
    assert swap.names(tree.node()) == {
        "/dev/sda3": ["/dev/sda3", "/dev/disk/by-id/x-part3", "/dev/disk/by-uuid/5d-1", "UUID=5d-1"],
        "/a b": ["/a b"],
    }


class Module:
    """An AnsibleModule that runs its commands."""

    def __init__(self, place, *, check_mode=False):
        """Declare a place, for 16 MiB."""
        self.params, self.check_mode = {"place": place and str(place), "mib": 16}, check_mode

    @staticmethod
    def run_command(argv):
        """Run a command."""
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def memory(monkeypatch, tmp_path):
    monkeypatch.setattr(swap_space, "MEMORY", tmp_path / "swap.json")
    return tmp_path / "swap.json"


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "swap"
    yield path
    subprocess.run(["swapoff", path], capture_output=True, check=False)


def is_on(path):
    return str(path) in mount_table.swaps(Path("/proc/swaps").read_text(encoding="utf-8"))


def able(tmp_path):
    """Tell whether this machine may have swap, and on this file system."""
    trial = tmp_path / "trial"
    kind = subprocess.check_output(["stat", "--file-system", "--format=%T", tmp_path], text=True)
    if kind.strip() not in ("ext2/ext3", "xfs"):
        return False
    trial.write_bytes(bytes(1 << 20))
    trial.chmod(0o600)
    commands = ["mkswap", "swapon", "swapoff"]
    return all(subprocess.run([one, trial], capture_output=True, check=False).returncode == 0 for one in commands)


def test_a_real_file_comes_and_goes(memory, place, tmp_path):
    if not able(tmp_path):
        pytest.skip("no swap may be made here")
    assert swap_space.operate(Module(place, check_mode=True))["changed"] is True
    assert not place.exists()
    told = swap_space.operate(Module(place))
    assert told["changes"] == [
        {"action": "write", "what": f"{place} (16 MiB of swap)"},
        {"action": "set", "what": f"swap {place} on"},
    ]
    assert (is_on(place), place.stat().st_size, place.stat().st_mode & 0o777) == (True, 16 << 20, 0o600)
    assert swap_space.operate(Module(place))["changed"] is False
    assert swap_space.operate(Module(None))["changed"] is True
    assert (is_on(place), place.exists(), memory.exists()) == (False, False, False)
    assert swap_space.operate(Module(None))["changed"] is False


@pytest.mark.usefixtures("memory")
def test_swap_of_somebodys_own_is_switched_on_and_left_there(place, tmp_path):
    if not able(tmp_path):
        pytest.skip("no swap may be made here")
    place.write_bytes(bytes(1 << 20))
    place.chmod(0o600)
    subprocess.run(["mkswap", place], capture_output=True, check=True)
    swap_space.operate(Module(place))
    assert (is_on(place), place.stat().st_size) == (True, 1 << 20)
    swap_space.operate(Module(None))
    assert (is_on(place), place.exists()) == (False, True)


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("kind", ["file", "link", "directory", "nowhere"])
def test_a_place_that_holds_something_is_refused_and_stays_as_it_is(place, tmp_path, kind):
    data = tmp_path / "data"
    data.write_bytes(b"somebody's" * 10_000)
    if kind == "file":
        place = data
    elif kind == "link":
        place.symlink_to(data)
    elif kind == "directory":
        place.mkdir()
    else:
        place /= "below"
    with pytest.raises(Refusal) as caught:
        swap_space.operate(Module(place))
    assert caught.value.code == "H098"
    assert data.read_bytes() == b"somebody's" * 10_000


@pytest.mark.usefixtures("memory")
def test_a_file_that_cannot_be_made_swap_does_not_stay(place, monkeypatch):
    monkeypatch.setattr(swap_space, "_room", lambda _node, path: Place(path, filesystem="ext4", free_mib=99))
    monkeypatch.setattr(Module, "run_command", staticmethod(lambda _argv: (1, "", "mkswap: no\n")))
    with pytest.raises(Refusal) as caught:
        swap_space.operate(Module(place))
    assert (caught.value.code, place.exists()) == ("H102", False)


@pytest.mark.usefixtures("memory")
def test_a_kernel_name_is_refused():
    with pytest.raises(Refusal) as caught:
        swap_space.operate(Module("/dev/sda3"))
    assert "another disk after the next boot" in caught.value.cause


def test_swap_that_does_not_fit_in_the_memory_is_not_switched_off(monkeypatch):
    monkeypatch.setattr(swap_space, "_available_mib", lambda: 100)
    with pytest.raises(Refusal) as caught:
        swap_space.carry_out(Module(None), Step(swap.OFF, FILE), 16, {FILE: mount_table.Swap(1000, 95)})
    assert caught.value.code == "H101"


def test_a_partition_that_is_no_longer_blank_is_not_formatted(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(4096) + b"somebody wrote this")
    with pytest.raises(Refusal) as caught:
        swap_space.carry_out(Module(None), Step(swap.FORMAT, str(disk)), 16, {})
    assert caught.value.code == "H098"


def test_a_partition_is_read_whole_whatever_its_size(monkeypatch):
    device, asked = Device("/dev/sda3", "part", 40 << 30, "8:3"), []

    class Reader:
        def __init__(self, *_):
            """Read nothing."""

        def devices(self):
            return Devices({"/dev/sda3": device}, contents={"/dev/sda3": Content()})

        def closer(self, paths, whole):
            asked.append(whole)
            return {path: Look() for path in paths}

    monkeypatch.setattr(swap_space, "Reader", Reader)
    monkeypatch.setattr(swap_space.Node, "resolve", lambda *_: "/dev/sda3")
    place = swap_space.look(Module(None), swap_space.Node(), BY_ID, {})
    assert (asked, place.device, place.holds) == ([40 << 30], device, "")


@pytest.mark.parametrize(("start", "stays"), [(b"theirs", True), (bytes(4096), False)])
def test_a_file_that_somebody_has_put_in_the_place_of_ours_is_not_deleted(tmp_path, start, stays):
    path = tmp_path / "swapfile"
    path.write_bytes(start)
    swap_space.carry_out(Module(None), Step(swap.DELETE, str(path)), 16, {})
    assert path.exists() == stays
