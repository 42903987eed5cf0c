"""Who holds an idle GPU is told: readings of the simulated NVML, and a terminal of the kernel's own."""

import os
import pwd
import subprocess
import sys
import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.monitoring import idle, telling

ME = pwd.getpwuid(os.getuid()).pw_name
HELD = f"gpu.0.processes = {os.getpid()}:3000\ngpu.0.memory_used_mib = 3000"


def at(minute, *holders):
    """Return the reading of a minute, with these holders of the GPU that computes nothing."""
    return idle.Reading(1e9 + 60 * minute, dict.fromkeys((idle.Holder(name, "GPU-1") for name in holders), "GPU 0"))


def told(readings, after=60, again=240):
    """Return (minute, user) whenever somebody is told."""
    state, found = {}, []
    for reading in readings:
        state, due = idle.judge(reading, state, after, again)
        found += [(int(reading.time - 1e9) // 60, holder.user) for holder in due]
    return found


def test_a_holder_is_told_after_the_window_and_again_and_no_more_when_the_gpu_is_free():
    readings = [at(minute, *(["ada"] if minute < 400 else [])) for minute in range(700)]
    assert told(readings) == [(60, "ada"), (300, "ada")]


def test_one_reading_that_saw_it_compute_begins_the_window_anew():
    assert told([at(minute, *([] if minute == 59 else ["ada"])) for minute in range(125)]) == [(120, "ada")]


def test_what_nobody_read_is_not_counted_as_idle():
    readings = [at(minute, "ada") for minute in (*range(30), *range(60, 125))]
    assert told(readings) == [(120, "ada")]
    assert told(reversed(readings)) == []


@pytest.mark.parametrize(
    ("changes", "is_idle"),
    [
        ([HELD], True),
        ([HELD, "gpu.0.utilization = 1"], False),
        ([f"gpu.0.processes = {os.getpid()}:300"], False),  # a desktop
        ([], False),
    ],
)
def test_readings_are_those_of_the_collector(collect, changes, is_idle):
    reading = idle.parse(collect("a100-pcie-2", *changes))
    assert time.time() - reading.time < 60
    assert [(holder.user, name.partition(" (")[0]) for holder, name in reading.idle.items()] == [
        (ME, "GPU 0")
    ] * is_idle


@pytest.fixture
def terminal():
    """Return both ends of a terminal of mine: what reads it, and its path."""
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    path = os.ttyname(theirs)
    yield ours, path
    os.close(ours)
    os.close(theirs)


def test_the_program_tells_on_terminals_that_take_messages_once(collect, terminal, tmp_path, monkeypatch):
    ours, path = terminal
    monkeypatch.setattr(idle, "STATE", tmp_path / "idle.json")
    monkeypatch.setattr(telling, "terminals", lambda _uid: [path])
    collect("a100-pcie-2", HELD)
    for _again in range(2):
        idle.main([str(tmp_path / "gpulab-gpu.prom"), "0", "240"])
    text = os.read(ours, 4096).decode()
    assert text.count("you hold GPU 0 (") == 1
    with pytest.raises(BlockingIOError):
        os.read(ours, 1)


def test_old_readings_tell_nobody_anything(collector, tmp_path):
    metrics = tmp_path / "old.prom"
    metrics.write_text("gpulab_collector_timestamp_seconds 1\n")
    done = subprocess.run([sys.executable, "-BEs", collector / "tell.py", metrics, "0", "1"], check=False, timeout=60)
    assert (done.returncode, idle.STATE.exists()) == (0, False)


def test_only_own_terminals_that_take_messages_are_written_to(terminal):
    path = idle.Path(terminal[1])
    path.chmod(0o620)
    assert path in list(telling.terminals(os.getuid()))
    assert path not in list(telling.terminals(os.getuid() + 1))
    path.chmod(0o600)
    assert path not in list(telling.terminals(os.getuid()))


@pytest.mark.parametrize(
    ("comment", "sent"),
    [
        ("ada@lab.example", True),
        ("Ada,,,,ada@lab.example", True),
        ("Ada Lovelace", False),
        ("-bs@lab", False),
        ("Ada,ada@lab.example,ada@lab.example,ada@lab.example", False),
    ],  # chfn: she may write others' there
)
def test_mail_goes_to_the_address_of_the_account_alone(tmp_path, comment, sent):
    program, mail = tmp_path / "sendmail", tmp_path / "mail"
    program.write_text(f'#!/bin/sh\necho "$@" > {mail}; cat >> {mail}\n')
    program.chmod(0o755)
    telling.send(comment, "an idle GPU", "text", str(program))
    assert mail.exists() == sent
    assert not sent or mail.read_text().startswith(
        "-i -- ada@lab.example\nTo: ada@lab.example\nSubject: an idle GPU\n\ntext"
    )
    telling.send("ada@lab.example", "an idle GPU", "text", str(tmp_path / "none"))
