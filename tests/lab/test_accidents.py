"""What happens to a run that meets an accident, what it says, and how the next run goes on.

The driver is one of a stand-in for NVIDIA's repository. The kernel's killer is played by a compiler that kills itself.
"""

import json
import shlex

import pytest
from laboratory import ROOT

NODES = [{"name": "node12", "release": "bookworm", "gpu": "rtx4090-2", "groups": ["workstations"]}]
TAGS = "base,nouveau,nvidia_driver"
VERSION = "595.91.07"
BEGIN, INSTALL = "Keep other runs away from the node, and read it again", "Install the driver's packages"
NOWHERE = "http://127.0.0.1:9/cuda/"
# A file system of its own, in the place of a directory, with room for little more than what is in it.
SMALL = """
size=$(( $(du -sm {place} | cut -f1) + 20 ))
cp -a {place} /var/tmp/kept
mount -t tmpfs -o size=${{size}}m small {place}
cp -a /var/tmp/kept/. {place}
rm -r /var/tmp/kept
"""
SELF_KILLER = """
for compiler in $(find /usr/lib/gcc /usr/libexec/gcc -name cc1 2>/dev/null); do
    mv $compiler $compiler.real
    printf '#!/bin/sh\\nkill -KILL $$\\n' > $compiler
    chmod +x $compiler
done
"""
CURED = (
    "find /usr/lib/gcc /usr/libexec/gcc -name cc1.real 2>/dev/null | while read file; do mv $file ${file%.real}; done"
)
# A Python for which it is a day later, the right time, and a day earlier, in turn.
PYTHON = "/usr/local/bin/python3-of-another-day"
JUMPING = f"""
mkdir -p /var/tmp/jumps
cat > /var/tmp/jumps/sitecustomize.py <<'END'
import os, time
really, seconds = time.time, float(os.environ["JUMP"])
time.time = lambda: really() + seconds
END
cat > {PYTHON} <<'END'
#!/bin/sh
number=$(cat /var/tmp/jumps/number 2>/dev/null || echo 0)
echo $((number + 1)) > /var/tmp/jumps/number
JUMP=$(( (number % 3 - 1) * 86400 )) PYTHONPATH=/var/tmp/jumps exec /usr/bin/python3 "$@"
END
chmod +x {PYTHON}
"""
STATE = f"{(ROOT / 'tests/list_node.sh').read_text()}\nfind /etc/modprobe.d /etc/apt -type f"


@pytest.fixture(scope="module")
def wishes(lab):
    """Serve the stand-in, and return the variables of a run."""
    lab.node("node12").run("apt-get update && apt-get install --yes gcc", timeout=300)
    return {**lab.serve_drivers("debian12", VERSION), "nvidia_driver_version": VERSION}


@pytest.fixture
def site(lab, wishes):
    """Return a function that runs site.yml; accident is a script on the node, run before the task of this name."""

    def run(at="", accident="", **further):
        environment = {
            "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/lab/callback_plugins"),
            "ANSIBLE_CALLBACKS_ENABLED": "kill_at",
            "GPULAB_ACCIDENT_AT": at,
            "GPULAB_ACCIDENT": f"docker exec {lab.node('node12').container} sh -ec {shlex.quote(accident)}",
        }
        return lab.play("site.yml", "--tags", TAGS, "-e", json.dumps({**wishes, **further}), timeout=900, **environment)

    return run


@pytest.mark.parametrize("playbook", ["site.yml", "playbooks/plan.yml"])
def test_a_repository_out_of_reach_is_refused_before_the_first_change(lab, wishes, playbook):
    before = lab.node("node12").run(STATE)
    given = {**wishes, "gpulab_nvidia_repository_url": NOWHERE}
    run = lab.play(playbook, "--tags", TAGS, "-e", json.dumps(given))
    assert run.rc == 2
    assert "GPULAB-H218" in run.output
    assert f"the repository nvidia-cuda and the key of the repository nvidia-cuda ({NOWHERE}InRelease: " in run.output
    assert lab.node("node12").run(STATE) == before


@pytest.mark.parametrize("place", ["/boot", "/usr/src", "/var/lib/dkms"])
def test_a_small_file_system_of_its_own_is_refused_before_the_first_change(lab, site, place):
    node = lab.node("node12")
    node.run(f"mkdir -p {place}{SMALL.format(place=place)}")
    before = node.run(STATE)
    try:
        run = site()
    finally:
        node.run(f"umount {place}")
    assert "GPULAB-H082" in run.said_of("node12")
    assert f"{place} has " in run.said_of("node12")
    assert run.recap["node12"]["changed"] == 0
    assert node.run(STATE) == before


def test_a_build_that_the_kernel_kills_is_named_and_undone(lab, site):
    node = lab.node("node12")
    try:
        run = site(INSTALL, SELF_KILLER)
    finally:
        node.run(CURED)
    said = run.said_of("node12")
    assert run.rc == 2
    assert "GPULAB-D" in said
    assert "memory" in said
    assert not node.holds("dpkg --get-selections | grep -q '^nvidia-open'")
    assert not node.holds("test -e /etc/modprobe.d/gpulab-nouveau.conf")  # nouveau draws again
    assert not node.holds("dpkg --audit | grep -q .")


def test_a_file_system_that_turns_read_only_is_named_and_the_next_run_goes_on(lab, site):
    node = lab.node("node12")
    try:
        run = site(INSTALL, "mount --bind /usr /usr; mount -o remount,bind,ro /usr")
    finally:
        node.run("mount -o remount,bind,rw /usr && umount --lazy /usr")
    said = run.said_of("node12")
    assert run.rc == 2
    assert "GPULAB-" in said
    assert "read-only" in said.lower()
    assert "Traceback" not in run.output


def test_a_kernel_that_comes_between_plan_and_change_gets_its_driver(lab, site):
    node = lab.node("node12")
    before = set(node.run("ls /lib/modules").split())
    run = site(BEGIN, "apt-get install --yes --no-install-recommends linux-image-amd64 >/dev/null")
    assert run.rc == 0, run.output[-3000:]
    new = set(node.run("ls /lib/modules").split()) - before
    assert len(new) == 1
    assert f"{new.pop()}, x86_64: installed" in node.run("dkms status")


def test_a_clock_that_is_set_back_and_forward_changes_nothing_of_what_a_run_does(lab, site):
    node = lab.node("node12")
    node.run(JUMPING)
    run = site(ansible_python_interpreter=PYTHON, gpulab_due="all")
    assert run.rc == 0, run.output[-3000:]
    assert int(node.run("cat /var/tmp/jumps/number")) >= 12


def test_a_run_after_all_of_these_changes_nothing(site):
    run = site()
    assert run.rc == 0, run.output[-3000:]
    assert run.recap["node12"]["changed"] == 0
