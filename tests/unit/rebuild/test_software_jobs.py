"""Jobs come back held, and are let go as they were."""

import base64

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.machine import Release
from ansible_collections.gpulab.node.plugins.module_utils.rebuild import software_done
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_asked import OfJobs
from ansible_collections.gpulab.node.plugins.module_utils.rebuild.software_jobs import Jobs

from unit.filled import filled, typed

RELEASE = filled({"id": "debian", "version": "13", "name": "Debian 13"}, Release)
UNIT = "/etc/systemd/system/lab-camera.service"
LINK = "/etc/systemd/system/multi-user.target.wants/lab-camera.service"
CRON = "/etc/cron.d/weekly-report"
LINGER = "/var/lib/systemd/linger/li"
OTHER = "/etc/systemd/system/multi-user.target.wants/nfs-server.service"


def entry(path, data=b"x", **more):
    kind = {"kind": "link", "target": more.pop("target")} if "target" in more else {"kind": "file"}
    content = {} if kind["kind"] == "link" else {"data": base64.b64encode(data).decode()}
    return {"path": path, "mode": "0644", "owner": "-", "uid": 0, "group": "-", "gid": 0, "size": 0, **kind, **content}


ENTRIES = [
    entry(UNIT, b"[Service]\n"),
    entry(LINK, target=UNIT),
    entry(CRON),
    entry(LINGER, b""),
    entry(OTHER, target="/lib/systemd/system/nfs-server.service"),
]
UNITS = [{"path": UNIT, "unit": "lab-camera.service", "active": "active", "gpulab": False}]
STATES = {
    "cron.service": "enabled",
    "lab-camera.service": "enabled",
    "apache2.service": "disabled",
    "cups.service": "masked",
    "docker.service": "enabled",
    "gone.service": "enabled",
    "networking.service": "enabled",
    "nvidia-persistenced.service": "enabled",
}


class Systemd:
    """A node's systemctl: the states of its units, and the commands that were run."""

    def __init__(self, root):
        """Begin as the packages' scripts leave a node."""
        self.root = root
        self.states = {
            "cron.service": "enabled",
            "apache2.service": "enabled",
            "cups.service": "enabled",
            "docker.service": "disabled",
            "networking.service": "disabled",
            "nvidia-persistenced.service": "disabled",
        }
        self.ran = []

    def __call__(self, argv):
        """Answer a command."""
        if argv[:2] == ["systemctl", "list-unit-files"]:
            own = {}
            if (self.root / UNIT[1:]).exists():
                own["lab-camera.service"] = "enabled" if (self.root / LINK[1:]).is_symlink() else "disabled"
            return 0, "\n".join(f"{name} {state} enabled" for name, state in {**self.states, **own}.items()), ""
        if argv[:2] == ["systemctl", "show"]:
            blocks = [f"Id={name}\nActiveState=inactive\nLoadState=loaded\n" for name in argv[argv.index("--") + 1 :]]
            return 0, "\n".join(blocks), ""
        self.ran.append(" ".join(argv))
        verb = argv[1] if argv[0] == "systemctl" else ""
        for name in argv[2:]:
            if verb in ("enable", "disable", "mask") and not name.startswith("-"):
                self.states[name] = {"enable": "enabled", "disable": "disabled", "mask": "masked"}[verb]
        return 0, "", ""


@pytest.fixture
def systemd(root):
    return Systemd(root)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text('ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian 13"\n')
    (tmp_path / "lib/systemd/system").mkdir(parents=True)
    (tmp_path / "lib/systemd/system/nfs-server.service").write_text("")
    return tmp_path


@pytest.fixture
def jobs(systemd, root):
    def make(**changes):
        asked = {
            "entries": ENTRIES,
            "sources": [],
            "units": UNITS,
            "states": STATES,
            "release": RELEASE,
            "managed": ["nvidia-persistenced.service"],
            "capture": "20261126T021500Z",
        }
        return Jobs(systemd, typed({**asked, **changes}, OfJobs), root)

    return make


def there(root):
    return {
        one["path"] for one in ENTRIES if (root / one["path"][1:]).is_symlink() or (root / one["path"][1:]).exists()
    }


def test_held_jobs_are_there_and_nothing_starts_them(jobs, systemd, root):
    found = jobs().hold(check_mode=False)
    assert there(root) == {UNIT, CRON}
    assert systemd.states["cron.service"] == "disabled"
    assert "systemctl disable --now cron.service" in systemd.ran
    assert not any(command.startswith(("systemctl start", "systemctl enable")) for command in systemd.ran)
    assert {"action": "write", "what": CRON} in found["changes"]


def test_what_people_had_disabled_or_masked_is_so_at_once(jobs, systemd):
    jobs().hold(check_mode=False)
    assert (systemd.states["apache2.service"], systemd.states["cups.service"]) == ("disabled", "masked")


def test_let_go_jobs_are_as_they_were(jobs, systemd, root):
    jobs().hold(check_mode=False)
    found = jobs().release(check_mode=False)
    assert there(root) == {one["path"] for one in ENTRIES}
    assert systemd.states["cron.service"] == "enabled"
    assert systemd.states["docker.service"] == "enabled"
    (started,) = [command for command in systemd.ran if command.startswith("systemctl start")]
    assert set(started.split()[3:]) == {"cron.service", "docker.service", "lab-camera.service"}
    assert "loginctl enable-linger li" in systemd.ran
    assert [(one["section"], one["name"]) for one in found["missing"]] == [("jobs", "gone.service")]


def test_the_network_and_gpulabs_units_are_left_to_others(jobs, systemd):
    jobs().hold(check_mode=False)
    jobs().release(check_mode=False)
    assert systemd.states["networking.service"] == systemd.states["nvidia-persistenced.service"] == "disabled"


def test_once_it_is_over_nothing_is_held_or_let_go_again(jobs, systemd, root):
    jobs().hold(check_mode=False)
    jobs().release(check_mode=False)
    (root / CRON[1:]).write_text("edited since")
    systemd.states["docker.service"] = "disabled"
    systemd.ran.clear()
    nothing = {"changes": [], "missing": []}
    assert [jobs().hold(check_mode=False), jobs().serve(check_mode=False), jobs().release(check_mode=False)] == [
        nothing
    ] * 3
    assert systemd.ran == []
    assert (root / CRON[1:]).read_text() == "edited since"


def test_check_mode_changes_nothing_and_says_the_same(jobs, systemd, root):
    told = jobs().hold(check_mode=True)
    assert (there(root), systemd.ran) == (set(), [])
    assert told == jobs().hold(check_mode=False)
    systemd.ran.clear()
    told = jobs().release(check_mode=True)
    assert (there(root), systemd.ran) == ({UNIT, CRON}, [])
    assert not software_done.read(root)
    done = jobs().release(check_mode=False)
    assert sorted(map(str, told["changes"])) == sorted(map(str, done["changes"]))
    assert told["missing"] == done["missing"]


def test_a_unit_of_gpulabs_is_not_written(jobs, root):
    jobs(units=[{**UNITS[0], "gpulab": True}]).hold(check_mode=False)
    assert there(root) == {CRON}


def test_a_link_to_what_is_not_on_the_node_is_told(jobs, root):
    (root / "lib/systemd/system/nfs-server.service").unlink()
    found = jobs().release(check_mode=False)
    assert OTHER not in there(root)
    assert OTHER in [one["name"] for one in found["missing"]]


def test_another_release_has_its_own_links_to_packages_units(jobs, root):
    found = jobs(release={**RELEASE, "version": "12"}).release(check_mode=False)
    assert there(root) == {UNIT, LINK, CRON, LINGER}
    assert found["missing"] == []


def test_sources_that_waited_come_back_at_the_end(jobs, root):
    waiting = entry("/etc/apt/sources.list.d/lab.sources", b"Types: deb\n")
    jobs(sources=[waiting]).hold(check_mode=False)
    assert not (root / "etc/apt").exists()
    jobs(sources=[waiting]).release(check_mode=False)
    assert (root / "etc/apt/sources.list.d/lab.sources").read_text() == "Types: deb\n"


def test_what_starts_jobs_by_the_clock_is_enabled_by_systemctl_which_tells_sysvs_links_too(jobs, systemd):
    link = "/etc/systemd/system/multi-user.target.wants/cron.service"
    entries = [*ENTRIES, entry(link, target="/lib/systemd/system/nfs-server.service")]
    jobs(entries=entries).hold(check_mode=False)
    jobs(entries=entries).release(check_mode=False)
    assert "systemctl enable cron.service" in systemd.ran
