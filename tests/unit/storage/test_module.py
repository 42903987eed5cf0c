"""What the module does to a node, with commands that are only noted down."""

import json
import shutil
import stat
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import lsblk
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.storage import blank, exports, plan, tiers
from ansible_collections.gpulab.node.plugins.module_utils.storage.devices import Devices
from ansible_collections.gpulab.node.plugins.module_utils.storage.steps import Step, Written
from ansible_collections.gpulab.node.plugins.modules import storage_tiers
from ansible_collections.gpulab.node.plugins.modules.storage_tiers import TierWork

from .nodes import tier


class Module:
    """An AnsibleModule that runs no command."""

    def __init__(self, tmpdir, answer):
        """Keep what every command answers."""
        self.tmpdir, self._answer, self.ran = str(tmpdir), answer, []

    def run_command(self, argv, **_):
        """Note it down."""
        self.ran.append(argv)
        return self._answer

    def get_bin_path(self, name):
        """Know of APT only."""
        return "/usr/bin/apt-get" if name == "apt-get" else None

    @staticmethod
    def atomic_move(draft, path, *, unsafe_writes=False):
        """Move it; as Ansible's own, a file that is there gives its permissions to what takes its place."""
        assert not unsafe_writes
        if Path(path).exists():
            shutil.copymode(path, draft)
        Path(draft).replace(path)


@pytest.fixture
def module(tmp_path):
    return Module(tmp_path, (0, "", ""))


@pytest.fixture
def work(module, monkeypatch, tmp_path):
    monkeypatch.setattr(storage_tiers, "RECORD", tmp_path / "record/made.json")
    monkeypatch.setattr(storage_tiers, "FSTAB", str(tmp_path / "fstab"))
    return TierWork(module)


@pytest.fixture
def disk(module, tmp_path, monkeypatch):
    """Return a disk by its name, and as lsblk shows it; it stands for a block device."""
    path, name = tmp_path / "nvme1n1", tmp_path / "by-id"
    path.write_bytes(bytes(4096))
    name.symlink_to(path)
    record = {
        "kname": str(path)[5:],
        "type": "disk",
        "size": 4096,
        "serial": "S7KG",
        "maj:min": "259:11",
        "wwn": "eui.1",
    }
    monkeypatch.setattr(storage_tiers.Node, "resolve", lambda _self, _link: f"/dev/{record['kname']}")
    monkeypatch.setattr(blank, "_number", lambda _handle: "259:11")
    monkeypatch.setattr(module, "run_command", shown(module, record))
    device = lsblk.parse(json.dumps({"blockdevices": [record]}))[f"/dev/{record['kname']}"]
    return path, record, Step("format", "make it", ("mkfs.ext4", str(name)), (Written(str(name), device),))


def shown(module, record):
    """Return what runs commands: lsblk shows this."""

    def run(argv, **_):
        module.ran.append(argv)
        return (0, json.dumps({"blockdevices": [record]}) if "lsblk" in argv else "", "")

    return run


def formatted(work, module, step):
    """Carry a step out, and return the code of its refusal, or its command."""
    try:
        work.carry_out(step)
    except Refusal as refusal:
        assert not any("mkfs.ext4" in argv for argv in module.ran)
        return refusal.code, refusal.cause
    return module.ran[-1]


def test_a_disk_that_is_still_blank_is_formatted_by_the_name_that_stays(work, module, disk):
    _path, _record, step = disk
    assert formatted(work, module, step) == ["mkfs.ext4", step.devices[0].name]


def test_a_disk_that_is_not_blank_any_more_is_not_formatted(work, module, disk):
    path, _record, step = disk
    path.write_bytes(bytes(4000) + b"somebody wrote this")
    code, cause = formatted(work, module, step)
    assert (code, "unknown data near byte 4000" in cause) == ("H162", True)


@pytest.mark.parametrize(
    "other", [{"serial": "S9"}, {"wwn": "eui.2"}, {"size": 8192}, {"maj:min": "259:12"}, {"children": [{
        "kname": "nvme1n1p1", "type": "part", "size": 1, "maj:min": "259:13"}]}], ids=str
)  # fmt: skip
def test_a_disk_that_is_another_one_now_is_not_formatted(work, module, disk, other):
    _path, record, step = disk
    record.update(other)
    code, cause = formatted(work, module, step)
    assert (code, "another device than was examined" in cause) == ("H162", True)


def test_a_name_that_leads_to_another_device_is_not_written_to(work, module, disk, monkeypatch):
    """The kernel says what was opened: a link may have been changed since lsblk was asked."""
    monkeypatch.setattr(blank, "_number", lambda _handle: "259:99")
    code, cause = formatted(work, module, disk[2])
    assert (code, "259:99" in cause) == ("H162", True)


def test_a_device_that_was_never_judged_is_not_written_to(work, module, disk):
    name = disk[2].devices[0].name
    code, cause = formatted(work, module, Step("format", "make it", ("mkfs.ext4", name), (Written(name, None),)))
    assert (code, "still to come" in cause) == ("H162", True)


def test_a_command_that_fails_is_told(module, work):
    module._answer = (32, "", "mount: what is this?\n       dmesg may know")  # noqa: SLF001 - the test's own
    with pytest.raises(Refusal) as caught:
        work.carry_out(Step("mount", "mount it", ("mount", "/scratch")))
    assert "mount /scratch: mount: what is this? dmesg may know" in caught.value.cause


def test_a_command_that_its_deadline_ended_is_told(module, work):
    module._answer = (-9, "", "")  # noqa: SLF001 - the test's own
    with pytest.raises(Refusal) as caught:
        work.carry_out(Step("mount", "mount it", (*plan.DEADLINE, "mount", "/shared")))
    assert caught.value.cause.endswith("mount /shared: no answer in time.")


def test_directories_that_were_made_go_when_their_tier_goes_and_others_stay(work, tmp_path):
    own = tmp_path / "mine"
    own.mkdir()
    place = f"{own}/a/b"
    work.carry_out(Step("directory", "make it", place=place))
    assert Path(place).is_dir()
    work.tidy(tiers.read([tier(mount=place)]))
    assert Path(place).is_dir()
    work.tidy([])
    assert list(own.iterdir()) == []
    assert not storage_tiers.RECORD.exists()


@pytest.mark.usefixtures("narrow_umask")
def test_directories_above_a_mount_can_be_passed_whatever_the_umask(work, tmp_path):
    work.carry_out(Step("directory", "make it", place=f"{tmp_path}/a/b"))
    assert {stat.S_IMODE((tmp_path / path).stat().st_mode) for path in ("a", "a/b")} == {0o755}


def test_a_directory_that_has_got_something_in_it_stays(work, tmp_path):
    place = tmp_path / "a"
    work.carry_out(Step("directory", "make it", place=str(place)))
    (place / "thesis").touch()
    work.tidy([])
    assert (place / "thesis").exists()


def test_the_record_names_what_was_made(work, tmp_path):
    work.carry_out(Step("directory", "make it", place=f"{tmp_path}/a/b"))
    assert json.loads(storage_tiers.RECORD.read_text()) == [f"{tmp_path}/a", f"{tmp_path}/a/b"]


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_file_keeps_its_mode_and_its_bytes(work, tmp_path, mode):
    file = tmp_path / "fstab"
    file.write_bytes(b"# caf\xe9\n")
    file.chmod(mode)
    text = file.read_bytes().decode("utf-8", "surrogateescape") + "line\n"
    work.carry_out(Step("fstab", "write it", text=text))
    assert file.read_bytes() == b"# caf\xe9\nline\n"
    assert file.stat().st_mode & 0o777 == mode


def test_a_file_that_has_nothing_left_goes(work, tmp_path):
    (tmp_path / "fstab").write_text("line\n")
    work.carry_out(Step("fstab", "write it", text=""))
    assert not (tmp_path / "fstab").exists()


def test_packages_are_those_of_the_programs_that_are_missing(work):
    steps = [Step("format", "make it", ("mkfs.xfs", "/dev/x")), Step("mount", "mount it", ("mount", "/x"))]
    assert work.packages([], steps) == ["xfsprogs"]


def test_the_file_of_exports_is_written_and_removed(work, monkeypatch, tmp_path):
    file = tmp_path / "exports.d/gpulab.exports"
    monkeypatch.setattr(exports, "FILE", str(file))
    work.carry_out(Step("exports", "write it", text="/data node2(ro)\n"))
    assert file.read_text() == "/data node2(ro)\n"
    work.carry_out(Step("exports", "remove it"))
    assert not file.exists()


def test_a_server_that_was_enabled_is_remembered_until_it_is_disabled(work, monkeypatch, tmp_path):
    record = tmp_path / "record/server"
    monkeypatch.setattr(exports, "ENABLED", str(record))
    work.carry_out(Step("serve", "start it", ("systemctl", "start", "nfs-server.service")))
    assert not record.exists()
    work.carry_out(Step("enable", "enable it", ("systemctl", "enable", "nfs-server.service")))
    assert record.exists()
    work.carry_out(Step("disable", "disable it", ("systemctl", "disable", "--now", "nfs-server.service")))
    assert not record.exists()


def test_a_server_that_could_not_be_enabled_is_not_remembered(module, work, monkeypatch, tmp_path):
    monkeypatch.setattr(exports, "ENABLED", str(tmp_path / "server"))
    module._answer = (1, "", "no such unit")  # noqa: SLF001 - the test's own
    with pytest.raises(Refusal):
        work.carry_out(Step("enable", "enable it", ("systemctl", "enable", "nfs-server.service")))
    assert not (tmp_path / "server").exists()


def test_the_packages_of_a_server_are_needless_only_where_they_are(work, module, monkeypatch):
    nothing = plan.State(Devices({}))
    assert work.needless([], nothing) == []
    monkeypatch.setattr(module, "get_bin_path", lambda name: f"/usr/bin/{name}")
    assert work.needless([], nothing) == ["nfs-kernel-server"]
    assert work.needless(tiers.read([tier(export_to=["node2"])]), nothing) == []


@pytest.mark.parametrize("kind", ["export", "withdraw"])
def test_what_exportfs_says_is_kept_for_the_case_that_its_table_lacks_the_export(module, work, kind):
    module._answer = (1, "", "exportfs: Failed to resolve node9")  # noqa: SLF001 - the test's own
    work.carry_out(Step(kind, "do it", ("exportfs", "node9:/data")))
    assert work.told == ["exportfs node9:/data: exportfs: Failed to resolve node9"]
