"""A node on which something runs out: room for the journal, room on /, memory, and time that is right.

Each run and each proof has to end in time, to say what ran out, and to leave no half of anything behind.
"""

import json
import re
import shlex
import time

import pytest
from test_storage import RECIPE  # noqa: F401 - the same disk

SECONDS = 900  # emulated, a task takes ten times as long as on a node
XID = "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LATER_XID = "NVRM: Xid (PCI:0000:06:00): 62, pid='<unknown>', name=<unknown>, Internal micro-controller halt"
PRIVATE = "/mnt/private"
TIER = {"name": "private", "purpose": "scratch", "mount": PRIVATE, "devices": ["PRIVATE"], "format": True}
# Records of gpulab that are no JSON, and drafts of them
HALVES = r"""[ -d /var/lib/gpulab ] || exit 0
cd /var/lib/gpulab && find . -name '*.new' -o -size 0 -name '*.json' -o -size 0 -name result
find . -name '*.json' -exec python3 -c 'import json, sys; [json.load(open(one)) for one in sys.argv[1:]]' {} +"""
# fallocate takes most of it at once; to write it all would take an emulated disk minutes.
FILL = """fallocate --length $(($(df --output=avail -B1 $(dirname {}) | tail -1) - 1000000)) {}.most || true
for size in 4k 512; do dd if=/dev/zero of={}.$size bs=$size 2>/dev/null || true; done"""

# Any Python that lives for some seconds. Under a low limit alone the kernel may, for minutes, read the same pages of
# programs again and again, and kill nobody.
GREEDY = "import threading; late = threading.Timer(5, lambda: b'x' * (256 << 20)); late.daemon = True; late.start()"


@pytest.fixture(scope="module")
def disks(directory):
    """Return the files of two blank disks by serial number: one for /var/log, one for a tier."""
    found = {serial: directory / f"{serial}.raw" for serial in ("LOG", "PRIVATE")}
    for path in found.values():
        with path.open("wb") as file:
            file.truncate(64 << 20 if path.stem == "LOG" else 400 << 20)
    return found


@pytest.fixture
def proof(play):
    def prove(rc=0, *, of=("host", "kernel_log"), fails_on="fail", **more):
        begun = time.monotonic()
        wishes = json.dumps({"proof_of": of, "proof_fails_on": fails_on, **more})
        told = play("tests/vm/storage_proof.yml", "-e", wishes, timeout=SECONDS, rc=rc)
        assert time.monotonic() - begun < SECONDS / 2
        return " ".join(told.split())

    return prove


@pytest.fixture
def storage(play):
    def apply(rc=0):
        return play("tests/vm/storage.yml", "-e", json.dumps({"storage_tiers": [TIER]}), timeout=SECONDS, rc=rc)

    return apply


def test_a_node_on_which_nothing_runs_out_has_no_finding(proof):
    told = proof()
    assert "is full" not in told
    assert "want of memory" not in told
    assert "controller's" not in told


def test_errors_that_a_full_journal_has_not_taken_are_found(machine, proof):
    machine.run(f"""
        mkfs.ext4 -q /dev/disk/by-id/virtio-LOG
        systemctl stop systemd-journald.socket systemd-journald-dev-log.socket systemd-journald
        mount /dev/disk/by-id/virtio-LOG /var/log
        mkdir -p /var/log/journal
        {FILL.replace("{}", "/var/log/fill")}
        systemctl start systemd-journald; journalctl --flush || true
        echo "{XID}" >/dev/kmsg; sleep 5
    """)
    told = proof(2, fails_on="warn")
    assert "/var/log is full" in told
    assert "fallen off the bus" in told.lower() or "XID 79" in told


def test_errors_that_a_damaged_journal_had_taken_are_found(machine, proof):
    machine.run(f"""
        rm /var/log/fill.*
        systemctl restart systemd-journald; journalctl --flush || true
        echo "{LATER_XID}" >/dev/kmsg; sleep 5; journalctl --sync || true
        for file in $(find /var/log/journal /run/log/journal -name '*.journal'); do
            dd if=/dev/urandom of=$file bs=64 count=2 conv=notrunc 2>/dev/null
        done
    """)
    lost = machine.run("journalctl --dmesg --boot --quiet 2>&1 | grep -c 'Xid.*62' || true")
    assert lost == "0", "the journal still tells of it: the test damages nothing"
    assert re.search(r"XID 62|micro-controller", proof(2, fails_on="fail"))
    machine.run("rm -r /var/log/journal; systemctl restart systemd-journald; umount --lazy /var/log")


def test_a_run_on_a_full_node_names_the_file_system_and_leaves_no_half(machine, proof, storage):
    machine.run(FILL.replace("{}", "/fill"))
    told = " ".join(storage(rc=2).split())
    assert re.search(r"GPULAB-H008|GPULAB-H082|GPULAB-H221", told), told
    assert "/ is full" in proof(2, fails_on="warn")
    assert machine.run(HALVES) == ""


def test_a_node_that_has_room_again_is_as_wished_with_the_next_run(machine, storage):
    machine.run("rm /fill.*")
    storage()
    assert "changed=0" in storage().rpartition("\nRECAP")[2]
    machine.run(f"findmnt {PRIVATE}")


def test_a_module_that_is_killed_for_want_of_memory_is_told_as_such_and_leaves_nothing(machine, proof):
    machine.run(f"""
        systemctl set-property --runtime user-$(id -u admin).slice MemoryMax=128M MemorySwapMax=0
        echo {shlex.quote(GREEDY)} >/usr/lib/python3/dist-packages/greedy.pth
    """)
    told = proof(2)
    machine.run("""
        rm /usr/lib/python3/dist-packages/greedy.pth
        systemctl set-property --runtime user-$(id -u admin).slice MemoryMax=infinity
    """)
    assert "GPULAB-H017" in told
    assert machine.run("pgrep --list-full python3 | grep -v networkd || true") == ""
    assert machine.run(HALVES) == ""


def test_a_job_that_was_killed_for_want_of_memory_is_told_and_is_no_fault_of_the_node(machine, proof, tmp_path):
    # A word that begins with $ would be a variable of systemd.
    limits = "--property=MemoryMax=20M --property=MemorySwapMax=0"
    machine.run(f"systemd-run --wait {limits} perl -e 'exit length \"x\" x 5e8' || true")
    proof(0, of=["host"], killed_in=str(tmp_path / "killed.json"))  # without the XIDs
    killed = json.loads((tmp_path / "killed.json").read_text())
    assert {one["command"]: one["count"] for one in killed}["perl"] == 1


@pytest.mark.parametrize(("shift", "told"), [("-3 hours", "behind"), ("+6 hours", "ahead of")])
def test_a_clock_that_is_wrong_is_told_and_stops_no_run(machine, proof, storage, shift, told):
    machine.run(f"systemctl stop systemd-timesyncd 2>/dev/null || true; date --set '{shift}'")
    assert re.search(rf"the clock is (?:2 h 5\d|3 h 0\d) min {told} the controller's", proof(2, fails_on="warn"))
    assert "changed=0" in storage().rpartition("\nRECAP")[2]


def test_a_clock_that_is_set_back_in_a_run_makes_no_deadline_longer(machine, play):
    machine.run("systemd-run --on-active=30 --timer-property=AccuracySec=1s date --set '-9 hours'")
    begun = time.monotonic()
    told = play("tests/vm/long_step.yml", timeout=SECONDS, rc=2)
    assert "GPULAB-S005" in told
    assert time.monotonic() - begun < SECONDS / 2
