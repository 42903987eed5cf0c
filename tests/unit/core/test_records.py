"""What gpulab remembers on a node: whatever is wrong with a file, it is named, and nothing is forgotten in silence."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.containers import docker_settings
from ansible_collections.gpulab.node.plugins.module_utils.core import records, steps
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import Step
from ansible_collections.gpulab.node.plugins.module_utils.driver import runfile, runfile_host
from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_repository, former, host
from ansible_collections.gpulab.node.plugins.module_utils.packages.former import FormerDebs
from ansible_collections.gpulab.node.plugins.module_utils.system import boot_arguments
from ansible_collections.gpulab.node.plugins.modules import gpu_settings, kernel_values, storage_tiers, swap_space

PLUGINS = Path(records.__file__).parents[1]
DRIVER = {"version": "595.91.07", "kernel_modules": "open"}


def _of_module(module, name):
    """Return the reader of a module that keeps its record in a constant."""

    def read(path, monkeypatch):
        monkeypatch.setattr(module, name, path)
        return module.remembered()

    return read


def _step(path, _monkeypatch):
    return Step(path.parent.name, lambda _argv: (0, "", ""), "boot", path.parents[1]).status()


# Every record: the name of its file, what it holds, and who reads it.
RECORDS = {
    "brought packages": ("packages.json", ["dkms", "gcc"], lambda path, _m: records.read(path, list[str], [])),
    "transaction": (
        "steps/driver/transaction.json",
        {
            "wishes": {"present": ["x"], "absent": []},
            "argv": ["apt-get", "install", "x"],
            "diff": {"before": "", "after": "x 1\n"},
            "new": ["x"],
            "residual": [],
            "keep": "",
        },
        lambda path, _m: records.read(path, host.Transaction, None),
    ),
    "former packages": (
        "former/driver/packages.json",
        {"versions": {"x": "1"}, "held": ["x"], "new": ["y"], "files": {"/etc/x": "a\n"}},
        lambda path, _m: FormerDebs("driver", path.parents[1]).read(),
    ),
    "step": (
        "steps/driver/state.json",
        {"fingerprint": "f", "argv": ["true"], "started": 1.5, "boot_id": "boot", "acknowledged": False},
        _step,
    ),
    "run file": (
        "runfile/driver.json",
        {
            "wish": {"driver": DRIVER, "url": "https://x", "sha256": "0"},
            "complete": False,
            "step": "s",
            "argv": ["sh"],
            "former": None,
        },
        lambda path, _m: runfile_host.read_record(path),
    ),
    "kernel values": ("kernel-values.json", {"vm.swappiness": {"/proc/x": "60"}}, _of_module(kernel_values, "MEMORY")),
    "swap": ("swap.json", {"/swapfile": "make"}, _of_module(swap_space, "MEMORY")),
    "GPU settings": ("gpu-settings.json", {"GPU-1": {"ecc": True}}, _of_module(gpu_settings, "MEMORY")),
    "storage": ("storage-directories.json", ["/data"], _of_module(storage_tiers, "RECORD")),
    "boot arguments": ("boot-arguments.json", ["iommu=pt"], lambda path, _m: boot_arguments.remembered(path)),
    "Docker": (
        "docker-settings.json",
        {"original": "{}", "made": {"live-restore": True}, "pending": ""},
        lambda path, _m: docker_settings.read_record(path),
    ),
    "DNF repositories": (
        "dnf-repositories.json",
        {"keys": {"AB": ["cuda"]}, "streams": {"cuda": {"stream": "a:b", "before": ""}}},
        lambda path, _m: dnf_repository.read_record(path),
    ),
}


@pytest.fixture(params=list(RECORDS))
def record(request, tmp_path, monkeypatch):
    """Return the path of a record, what it holds, and a function that reads it as gpulab does."""
    name, value, read = RECORDS[request.param]
    path = tmp_path / name
    records.write(path, value, 0o600)
    return path, value, lambda: read(path, monkeypatch)


def refusal(read):
    with pytest.raises(Refusal) as refused:
        read()
    return refused.value


def test_what_was_written_is_read(record):
    _path, _value, read = record
    assert read()


def test_one_that_is_cut_at_any_byte_is_named_with_what_cures(record):
    path, _value, read = record
    whole = path.read_bytes()
    for size in range(len(whole) - 1):  # the last byte is the end of the line
        path.write_bytes(whole[:size])
        why = refusal(read)
        assert why.code == "H220", size
        assert str(path) in why.cause
        assert f"mv {path} {path}.damaged" in why.remedy
    path.rename(f"{path}.damaged")
    read()


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b'"\xe9"', b"[" * 10**5, b"null", b"7", b'"x"', b"[7]", b'{"x": 7}']
)
def test_what_is_no_record_is_named(record, content):
    path, _value, read = record
    path.write_bytes(content)
    why = refusal(read)
    assert (why.code, str(path) in why.cause) == ("H220", True)


def test_a_directory_in_its_place_is_named(record):
    path, _value, read = record
    path.unlink()
    path.mkdir()
    assert refusal(read).code == "H220"


def wrong(value):
    """Yield the value with each of its parts in turn of another type."""
    yield [value] if not isinstance(value, list) else {"x": 1}
    if isinstance(value, list):
        for number, one in enumerate(value):
            yield from ([*value[:number], other, *value[number + 1 :]] for other in wrong(one))
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from ({**value, name: other} for other in wrong(one))


# What others decide the form of: NVML's values, Docker's settings.
FREE = {"GPU settings": 1, "Docker": 1}


def test_each_part_of_another_type_is_named(request, record):
    path, value, read = record
    taken, codes = 0, set()
    for other in wrong(value):
        path.write_text(json.dumps(other))
        try:
            read()
            taken += 1
        except Refusal as why:
            codes.add(why.code)
    assert codes == {"H220"}
    assert taken == FREE.get(request.node.callspec.params["record"], 0)


class _More(TypedDict, total=False):
    more: int


class _Inner(TypedDict):
    b: str


class _Outer(_More):
    a: _Inner
    either: str | None
    what: Any


@dataclass
class _Plain:
    names: list[str] = field(default_factory=list)


WHOLE = {"a": {"b": "x"}, "either": None, "what": [1]}


@pytest.mark.parametrize(
    ("value", "kind", "fault"),
    [
        ([], list[str], ""),
        ([1], list[str], "it[0] is not text"),
        ({}, list[str], "it is not a list"),
        ([], dict[str, str], "it is not an object"),
        ({"a": {"b": 1}}, dict[str, _Inner], "it.a.b is not text"),
        (WHOLE, _Outer, ""),
        ({**WHOLE, "later": 2}, _Outer, ""),
        ({**WHOLE, "more": 1}, _Outer, ""),
        ({**WHOLE, "more": None}, _Outer, "it.more is not a number"),
        ({**WHOLE, "either": 1}, _Outer, "it.either is not text or null"),
        ({**WHOLE, "a": {"b": None}}, _Outer, "it.a.b is not text"),
        ({"a": {"b": "x"}, "what": None}, _Outer, "it has no either"),
        (True, int, "it is not a number"),
        (1, float, ""),
        (1.5, int, "it is not a number"),
        (None, Any, ""),
        ({}, _Plain, "it has no names"),
        ({"names": [1]}, _Plain, "it.names[0] is not text"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_place(value, kind, fault):
    assert next(records.faults(value, kind), "") == fault


def test_a_dataclass_is_made_of_the_names_that_it_has(tmp_path):
    records.write(tmp_path / "record", {"names": ["x"], "later": 1})
    assert records.read(tmp_path / "record", _Plain, None) == _Plain(["x"])


@dataclass
class _Part:
    size: float


@dataclass
class _Whole(_Plain):
    parts: list[_Part] = field(default_factory=list)
    by_name: dict[str, _Part] = field(default_factory=dict)
    either: _Part | str | None = None
    below: list[_Whole] = field(default_factory=list)


PLAIN: dict[str, Any] = {"names": ["x"], "parts": [{"size": 1}], "by_name": {"a": {"size": 2.5}}, "either": {"size": 3}}
PLAIN["below"] = [{**PLAIN, "names": ["y"], "below": []}]


def test_plain_data_gets_its_type_in_all_its_parts():
    parts = ([_Part(1)], {"a": _Part(2.5)}, _Part(3))
    whole = _Whole(["x"], *parts, [_Whole(["y"], *parts)])
    assert records.typed({**PLAIN, "later": 1}, _Whole) == whole
    assert records.typed([{**PLAIN, "either": None}], list[_Whole])[0].either is None
    assert records.typed({**PLAIN, "either": "x"}, _Whole).either == "x"
    with pytest.raises(ValueError, match=r"it\.by_name\.a\.size is not a number"):
        records.typed({**PLAIN, "by_name": {"a": {"size": "2"}}}, _Whole)
    with pytest.raises(ValueError, match=r"it\.below\[0\] has no parts"):
        records.typed({**PLAIN, "below": [{"names": []}]}, _Whole)


def test_a_type_that_nobody_can_find_is_no_type():
    """Else its values would be taken whatever they are."""

    class Lost(TypedDict):
        name: NoSuchType  # noqa: F821

    with pytest.raises(AttributeError, match="NoSuchType"):
        list(records.faults({"name": 1}, Lost))


def test_a_record_is_replaced_whole_or_stays(tmp_path, monkeypatch):
    path = tmp_path / "record"
    records.write(path, ["a"])

    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    why = refusal(lambda: records.write(path, ["a", "b"]))
    assert (why.code, str(path) in why.cause, "No space left" in why.cause) == ("H221", True, True)
    assert json.loads(path.read_text()) == ["a"]
    assert [one.name for one in tmp_path.iterdir()] == ["record"]


def test_a_record_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: done.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    records.write(tmp_path / "record", ["a"], 0o600)
    assert done == [".record.new", tmp_path.name]
    assert (tmp_path / "record").stat().st_mode & 0o777 == 0o600


def test_one_that_holds_the_same_is_not_written(tmp_path):
    path = tmp_path / "record"
    records.keep(path, ["a"])
    before = path.stat()
    records.keep(path, ["a"])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    records.keep(path, [])
    assert not path.exists()


def test_no_other_code_writes_json_in_place():
    writers = [path.name for path in PLUGINS.glob("module*/*.py") if "write_text(json" in path.read_text()]
    assert writers == []


def test_the_end_of_a_step_is_damaged(tmp_path):
    path = tmp_path / "driver/state.json"
    records.write(path, RECORDS["step"][1])
    (tmp_path / "driver/result").write_text('{"rc": ')
    why = refusal(lambda: _step(path, None))
    assert (why.code, "driver/result" in why.cause) == ("H220", True)


def test_paths_of_this_test_are_those_of_gpulab():
    """A record that is added to gpulab is to be added here, too."""
    state = {steps.ROOT.parent / name for name, _value, _read in RECORDS.values() if "/" not in name}
    named = {host.BROUGHT, kernel_values.MEMORY, gpu_settings.MEMORY, storage_tiers.RECORD, swap_space.MEMORY}
    assert named <= state
    assert (former.RECORD, runfile.RECORD) == ("packages.json", "driver.json")
