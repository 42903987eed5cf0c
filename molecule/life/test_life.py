"""The life of a node of each host type: bare, at work, captured, rebuilt, with another driver, bare again."""

import json
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from fresh import WRITTEN, take_away
from scenario import EPHEMERAL, SCENARIO, Run, each, nodes, playbook, reboot

CAPTURES = EPHEMERAL / "captures"
PLANNED, BETTER, LOSSY = "595.91.07", "595.95.01", "595.96.01"
LEFT = (SCENARIO / "left.sh").read_text()
PEOPLE = (SCENARIO / "people.sh").read_text()
PLANTED = {"/opt/vendor/stray", "/srv/model.bin", "/home/ada/results.csv", "/home/ada/thesis/one.tex"}
# The lab's storage driver gives each container a copy of its whole file system.
OF_THE_CONTAINER = re.compile(r"/var/lib/(?:docker|containers/storage)/vfs/dir/[0-9a-f]{64}")
# What a rebuild says where the release is another one, or a package keeps a file.
OF_THE_RELEASE = re.compile(
    r"release|dbus-daemon|lib.*\d|perl-modules-.*|/var/lib/dpkg/(diversions|statoverride)|/home/ada/venv: Python .*"
)
OF_PEOPLE = re.compile(r'"ada"|lab-camera|/srv/|/home/ada/(?!venv)')
OF_GPULAB = re.compile(r"gpulab|nvidia|cuda|nouveau|not needed|half there|held")
# packages.json names the engine's packages, where gpulab brought them, users.json the numbers that stay people's.
STAYS = re.compile(r"/opt/venvs/|/kernels/venv-|/var/lib/gpulab/((rebuild|restore)/|(packages|users)\.json)")
# What a person does then, as docs/capture.md says: one goes to another disk, the inventory has a word for the others.
MOVED = "mv /home/ada/results.csv /srv/data/ada"
ACCOUNTED = {
    "capture_paths": ["~/thesis", "/srv/model.bin"],
    "life_acknowledged": [
        {"path": "/opt/vendor", "reason": "installed again from the campus server"},
        {"path": "/var/lib/**/vfs/dir", "reason": "the container's results are in /srv/data"},
    ],
}
# What has to be equal before and after, by a command each.
SEEN = {
    "who": "grep -e ^ada: /etc/passwd /etc/group /etc/shadow; cat /etc/hostname /etc/machine-id",
    "home": r"find /home/ada \( -name venv -o -name .cache \) -prune -o -printf '%p %m %U %G %l\n' | sort",
    "work": "cat /home/ada/.ssh/authorized_keys /home/ada/thesis/one.tex /home/ada/.bashrc; sha256sum /srv/model.bin",
    "venv": "runuser -l ada -c '~/venv/bin/pip freeze | grep six && ~/venv/bin/python -m six; stat -c %U ~/venv'",
    "cron": "crontab -u ada -l; systemctl is-active cron",
    "camera": "systemctl is-enabled lab-camera; systemctl is-active lab-camera; systemctl cat lab-camera",
    "dataset": "sha256sum /srv/data/ada/dataset /srv/data/ada/results.csv; stat -c %U:%G /srv/data/ada/*",
    "manual": "apt-mark showmanual | grep -x -e cron -e python3-venv",
    "listed": "id cai; stat -c '%a %U %G' /home/cai; cat /var/lib/gpulab/users.json",
    "registry": "grep -A1 insecure /etc/docker/daemon.json; cd /etc/containers"
    " && cat containers.conf storage.conf registries.conf.d/lab.conf",
}
ASK = "import urllib.request; print(urllib.request.urlopen('http://{}:9100/metrics').status)"


@dataclass(frozen=True)
class Expected:
    """What a type brings: its engine, for whom metrics are, whether it knows names, and has settings of GPUs."""

    engine: str = "docker"
    metrics_for_others: bool = True
    names: bool = False
    gpu_settings: bool = True


EXPECTED = {
    "workstation": Expected(metrics_for_others=False, gpu_settings=False),
    "shared": Expected(engine="podman"),
    "training": Expected(names=True),
    "inference": Expected(),
}


@dataclass
class Life:
    """What there was to be seen of the nodes, and the runs, each by chapter; and how many minutes a chapter took."""

    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    minutes: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def chapter(self, name):
        """Measure a chapter, and write down how long it took, for whoever waits."""
        start = time.monotonic()
        yield
        self.minutes[name] = (time.monotonic() - start) / 60
        lines = [f"{minutes:5.1f} min  {chapter}\n" for chapter, minutes in self.minutes.items()]
        (EPHEMERAL / "minutes").write_text("".join(lines))

    def run(self, name, path, *options, status=0, look=None, **variables):
        """Run a playbook as a chapter; the story ends where it ends otherwise than expected."""
        with self.chapter(name):
            run = playbook(path, *options, **variables)
        assert run.status == status, f"{name}: {run.output[-20000:]}"
        self.runs[name], self.seen[name] = run, each(look or (lambda _host: None))


def left(host):
    """Return what the node has, a line for each thing."""
    return set(host.check_output(LEFT).splitlines())


def seen(host):
    """Return what there is of the people."""
    return {name: host.run(command).stdout for name, command in SEEN.items()}


def brings(host):
    """Return what the type has brought, as Expected has it, where it has brought what all do."""
    own = host.check_output("hostname --all-ip-addresses").split()[0]
    (listening,) = host.check_output("ss -Hltn 'sport = :9100'").splitlines()
    for_others = f" {own}:9100 " in listening
    served = host.check_output("python3 -c %s", ASK.format(own if for_others else "127.0.0.1"))
    (engine,) = [name for name in ("docker", "podman") if host.exists(name)]
    common = (
        "nvidia-ctk --version && test -x /usr/local/cuda/bin/nvcc && /opt/venvs/pytorch/bin/python -c 'import torch'"
        " && test -s /etc/ssh/gpulab-keys/cai"
    )
    assert (served, host.run(common).rc) == ("200", 0)
    return Expected(
        engine=engine,
        metrics_for_others=for_others,
        names=host.check_output("hostname") in host.file("/etc/hosts").content_string.partition("gpulab")[2],
        gpu_settings=host.file("/etc/systemd/system/gpulab-gpu-settings.service").exists,
    )


def loaded(host):
    """Return the version of the driver that is loaded, and the versions of its packages."""
    listing = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' '*nvidia*' libcuda1")
    packages = {row.split()[2] for row in listing.splitlines() if row.startswith("installed") and "-1" in row}
    version = re.search(r" (\d+\.\d+\.\d+) ", host.file("/proc/driver/nvidia/version").content_string)[1]
    return version, f"{version}-1" in packages


def count(host):
    """Start the container that counts, as its owner does."""
    engine = EXPECTED[host.backend.host].engine
    image = f"{host.check_output('hostname --all-ip-addresses').split()[0].rpartition('.')[0]}.1:8642/lab/counter:1"
    host.check_output("mkdir -p /srv/data/counter")
    options = f"--detach --name counter --restart always --network none --volume /srv/data/counter:/data {image}"
    host.check_output(f"{engine} run {options}")
    if engine == "podman":  # which has no daemon that starts containers at a boot
        host.check_output("systemctl enable --quiet podman-restart")


def work(host):
    """Return how far the container, which runs, and the cron job have come, each a number of lines."""
    engine = EXPECTED[host.backend.host].engine
    assert host.check_output(f"{engine} container inspect --format '{{{{.State.Running}}}}' counter") == "true"
    lines = host.check_output("cat /srv/data/counter/count | wc -l; cat /srv/data/ada/ticks | wc -l").split()
    return [int(number) for number in lines]


def left_over(name):
    manifest = json.loads((CAPTURES / name / "latest/manifest.json").read_text())
    return {one["path"]: [one["files"], one["bytes"], one["owner"]] for one in manifest["remainder"]}


@pytest.fixture(scope="session")
def life():
    """Tell the whole story once."""
    life = Life()
    life.seen["bare"] = each(left)
    life.run("site.yml", "site.yml", look=brings)
    with life.chapter("people"):
        each(lambda host: host.check_output(PEOPLE))
        each(count)
    life.run("capture.yml", "playbooks/capture.yml")
    life.seen["left over"] = {name: left_over(name) for name in nodes()}
    (EPHEMERAL / "left_over.json").write_text(json.dumps(life.seen["left over"], indent=1))
    each(lambda host: host.check_output(MOVED))
    life.run("capture.yml, accounted", "playbooks/capture.yml", **ACCOUNTED)
    life.seen["still left over"] = {name: left_over(name) for name in nodes()}
    life.seen["before"] = each(seen)
    with life.chapter("another system"):
        take_away()
    life.seen["fresh"], life.seen["nobody"] = each(left), each(seen)
    later = {**ACCOUNTED, "life_system": "debian13"}
    life.run("rebuild.yml", "playbooks/rebuild.yml", look=seen, **later)
    life.seen["rebuilt"] = {name: json.loads((CAPTURES / name / "rebuilt.json").read_text()) for name in nodes()}
    each(count)
    life.seen["at work"] = each(work)
    life.run("rebuild.yml again", "playbooks/rebuild.yml", look=seen, **later)
    life.seen["brought"] = each(brings)
    life.run("driver change", "site.yml", look=loaded, nvidia_driver_version=BETTER, **later)
    life.seen["still at work"] = each(work)
    life.run("rollback", "site.yml", status=2, look=loaded, nvidia_driver_version=LOSSY, **later)
    life.run("remove.yml", "playbooks/remove.yml", **later)
    with life.chapter("reboot"):
        each(reboot)
    life.seen["removed"], life.seen["people"] = each(left), each(seen)
    came = {name: sorted(life.seen["removed"][name] - life.seen["fresh"][name]) for name in nodes()}
    (EPHEMERAL / "stayed.json").write_text(json.dumps(came, indent=1))
    return life


@pytest.fixture
def name(host):
    return host.backend.host


def test_a_bare_node_gets_what_its_type_brings(life, name):
    assert life.seen["site.yml"][name] == EXPECTED[name]


def test_a_capture_leaves_over_exactly_what_was_planted(life, name):
    """What the container may have written is planted, too."""
    found = set(life.seen["left over"][name])
    assert {path for path in found if not OF_THE_CONTAINER.fullmatch(path)} == PLANTED
    assert len(found) == len(PLANTED) + 1


def test_once_people_have_accounted_for_it_nothing_is_left_over(life, name):
    assert life.seen["still left over"][name] == {}


def test_a_fresh_node_knows_nobody(life, name):
    same = [one for one in SEEN if life.seen["nobody"][name][one] == life.seen["before"][name][one]]
    assert same == []


def test_a_rebuild_brings_everything_of_the_people_back(life, name):
    assert life.seen["rebuild.yml"][name] == life.seen["before"][name]
    assert life.seen["brought"][name] == EXPECTED[name]


def test_what_did_not_come_back_is_named_and_nothing_else_differs(life, name):
    report = life.seen["rebuilt"][name]
    same = WRITTEN[name]["next"] == WRITTEN[name]["release"]
    assert [one for one in report["differences"] if same or OF_PEOPLE.search(json.dumps(one["subject"]))] == []
    missing = {one["name"] for one in report["missing"]}
    assert {one for one in missing if not OF_THE_RELEASE.fullmatch(one)} == {"container counter"}


def test_a_second_rebuild_changes_nothing(life, name):
    assert life.runs["rebuild.yml again"].changed[name] == 0, life.runs["rebuild.yml again"].output
    assert life.seen["rebuild.yml again"][name] == life.seen["before"][name]


def test_the_driver_is_changed_and_one_that_does_not_prove_itself_rolled_back(life, name):
    assert life.seen["driver change"][name] == (BETTER, True)
    assert "GPULAB-D022" in life.runs["rollback"].output
    assert life.seen["rollback"][name] == (BETTER, True)


def test_the_jobs_of_people_go_on_through_all_of_it(life, name):
    before, after = (life.seen[chapter][name] for chapter in ("at work", "still at work"))
    assert all(was < now for was, now in zip(before, after)), (before, after)


def test_after_the_removal_nothing_of_gpulabs_is_left_but_what_people_may_work_with(life, name):
    """What the engines, and the packages that people chose, brought stays; so do environments and their kernels."""
    assert life.seen["people"][name] == life.seen["before"][name]
    came = life.seen["removed"][name] - life.seen["fresh"][name]
    assert sorted(line for line in came if OF_GPULAB.search(line) and not STAYS.search(line)) == []
