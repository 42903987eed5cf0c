"""What the preview says of a host, and that it keeps to its schema."""

import json
from dataclasses import asdict
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

from unit.checks import nodes
from unit.preview import hosts

UNIT = "ansible.builtin.systemd_service"
SCHEMA = json.loads((Path(__file__).parents[3] / "docs/preview.schema.json").read_text(encoding="utf-8"))


def test_document_keeps_to_its_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for preview in (hosts.fleet(), document.build({}, hosts.CREATED)):
        jsonschema.validate(json.loads(json.dumps(preview)), SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == document.SCHEMA


def test_schema_refuses_an_unknown_state():
    preview = hosts.fleet()
    preview["hosts"][0]["state"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(preview, SCHEMA)


def test_nothing_would_change_on_a_provisioned_node():
    entry = hosts.preview(hosts.provisioned())
    assert entry["state"] == "unchanged"
    assert (entry["changes"], entry["services"], entry["disk"]) == ([], [], [])
    assert entry["download"] == {"bytes": 0, "not_listed": []}
    assert entry["reboot"] == {"needed": False, "because": [], "refusal": None}
    assert entry["present"]["driver"] == {"on_disk": hosts.OLD, "loaded": hosts.OLD, "sources": ["distribution"]}
    assert entry["present"]["gpus"] == ["GeForce RTX 4090"] * 2


def test_a_virgin_node_gets_all_of_it():
    entry = hosts.preview(hosts.virgin())
    assert entry["state"] == "changes"
    assert hosts.actions(entry) == {
        ("nouveau", "write"): [hosts.NOUVEAU_FILE],
        ("nouveau", "run"): ["update-initramfs -u -k all"],
        ("nvidia_driver", "install"): [
            "dkms 3.0.10-8",
            "gcc-12 12.2.0-14",
            *(f"{name} {hosts.NEW}-1~deb12u1" for name in ("nvidia-kernel-dkms", "nvidia-persistenced", "nvidia-smi")),
        ],
        ("nvidia_driver", "build"): [nodes.KERNEL, nodes.NEXT_KERNEL],
        ("nvidia_driver", "write"): [hosts.UNIT_FILE],
    }
    assert entry["services"] == [
        {"name": "nvidia-persistenced", "action": "start", "because": "its package is installed"}
    ]
    assert entry["present"]["held_by"] == ["nouveau"]
    assert entry["because"]


def test_a_file_that_two_transactions_need_is_downloaded_once():
    assert hosts.preview(hosts.virgin())["download"] == {"bytes": 219_049_000, "not_listed": []}


def test_a_download_is_not_guessed_before_the_package_lists_are_there():
    entry = hosts.preview(hosts.virgin(listed=False))
    assert entry["download"]["bytes"] is None
    assert "nvidia-kernel-dkms" in entry["download"]["not_listed"]
    assert "nvidia-kernel-dkms" in hosts.actions(entry)["nvidia_driver", "install"]


def test_a_full_disk_is_told():
    one = hosts.virgin()
    one["facts"]["filesystems"][0]["free_mib"] = 100
    assert [disk["enough"] for disk in hosts.preview(one)["disk"]] == [False]
    assert [disk["enough"] for disk in hosts.preview(hosts.virgin())["disk"]] == [True]


def test_a_host_whose_run_failed_shows_what_came_before():
    one = {**hosts.provisioned(), "failure": {"failed": True, "msg": "no"}}
    one["results"] = [hosts.written("nouveau", hosts.NOUVEAU_FILE)]
    entry = hosts.preview(one)
    assert (entry["state"], entry["detail"]) == ("failed", "no")
    assert hosts.actions(entry) == {("nouveau", "write"): [hosts.NOUVEAU_FILE]}


def test_a_task_that_names_several_refusals_refuses_the_host():
    one = {**hosts.refused(), "failure": {"failed": True, "msg": "GPULAB-H047 a.\nGPULAB-H050 b."}}
    assert hosts.preview(one)["state"] == "refused"


def test_a_host_that_was_lost_on_the_way_is_not_called_unchanged():
    one = {**hosts.provisioned(), "ended": True}
    assert (hosts.preview(one)["state"], hosts.preview(one)["detail"]) == ("failed", document.EARLIER)


def test_a_host_that_will_stop_for_the_console_shows_what_it_does_before():
    steps = ["make the key /var/lib/dkms/mok.key", "ask the firmware to enrol /var/lib/dkms/mok.pub"]
    one = hosts.provisioned()
    one["results"] = [
        hosts.predicted("secure_boot", install={"mokutil": "0.6.0-2"}, downloads={"mokutil.deb": 28_000}),
        hosts.changed("secure_boot", arrange=steps),
    ]
    refusal = refuse("P047", waits="waits", first="")
    entry = hosts.preview({**one, "failure": {"failed": True, "msg": str(refusal), "refusal": asdict(refusal)}})
    assert (entry["state"], entry["refusal"]["code"]) == ("refused", "P047")
    assert hosts.actions(entry) == {("secure_boot", "install"): ["mokutil 0.6.0-2"], ("secure_boot", "arrange"): steps}


def test_what_happens_to_each_thing_is_told_apart():
    one = hosts.provisioned()
    one["results"] = [
        hosts.changed("base", trust=["aa"], distrust=["bb"]),
        hosts.changed("base", write=["/a", "/b"], delete=["/c"]),
    ]
    assert hosts.preview(one)["changes"] == [
        {"role": "base", "action": "trust", "objects": ["aa"]},
        {"role": "base", "action": "distrust", "objects": ["bb"]},
        {"role": "base", "action": "write", "objects": ["/a", "/b"]},
        {"role": "base", "action": "delete", "objects": ["/c"]},
    ]


EXPORTER = "prometheus-node-exporter.service"
RESTARTS = {"changes": [], "steps": [{"action": "restart", "unit": "prometheus-node-exporter.service"}]}
RUNS = {"UnitFileState": "enabled", "ActiveState": "active"}


@pytest.mark.parametrize(
    ("results", "expected", "service"),
    [
        pytest.param(
            [
                hosts.written("monitoring", "/etc/systemd/system/gpulab-metrics.timer"),
                hosts.predicted("monitoring", install={"prometheus-node-exporter": "1.9"}),
                {**hosts.written("monitoring", "targets/node.yml"), "delegate_to": "localhost"},
            ],
            {
                ("monitoring", "write"): ["/etc/systemd/system/gpulab-metrics.timer", "targets/node.yml (controller)"],
                ("monitoring", "install"): ["prometheus-node-exporter 1.9"],
            },
            ["start"],
            id="comes",
        ),
        pytest.param(
            [
                hosts.result("monitoring", UNIT, {"name": "gpulab-metrics.timer", "enabled": False}),
                hosts.result("monitoring", UNIT, {"name": "gpulab-metrics.service", "state": "stopped"}),
                hosts.result("monitoring", "ansible.builtin.file", {"path": "/usr/local/lib/g", "state": "absent"}),
            ],
            {
                ("monitoring", "disable"): ["gpulab-metrics.timer"],
                ("monitoring", "delete"): ["/usr/local/lib/g"],
            },
            [],
            id="goes",
        ),
        pytest.param(
            [
                hosts.result(
                    "monitoring", "gpulab.node.units", {}, changes=[], steps=[{"action": "restart", "unit": EXPORTER}]
                )
            ],
            {},
            ["restart"],
            id="another-address",
        ),
    ],
)
def test_what_lets_prometheus_watch_is_told(results, expected, service):
    one = {**hosts.provisioned(), "results": results}
    entry = hosts.preview(one)
    found = {}
    for change in entry["changes"]:
        found.setdefault((change["role"], change["action"]), []).extend(change["objects"])
    assert found == expected
    assert [one["action"] for one in entry["services"]] == service


@pytest.mark.parametrize(
    ("state", "status", "shown"),
    [
        (None, {"UnitFileState": "enabled", "ActiveState": "inactive"}, False),
        (None, {"UnitFileState": "disabled", "ActiveState": "active"}, True),
        ("started", {"UnitFileState": "enabled", "ActiveState": "inactive"}, True),
        ("started", RUNS, False),
        ("started", {}, True),
    ],
)
def test_a_unit_is_to_be_enabled_where_it_is_not(state, status, shown):
    arguments = {"name": "chrony.service", "enabled": True, "state": state}
    one = {**hosts.provisioned(), "results": [hosts.result("network", UNIT, arguments, status=status)]}
    assert hosts.actions(hosts.preview(one)) == ({("network", "enable"): ["chrony.service"]} if shown else {})


@pytest.mark.parametrize(
    ("module", "arguments", "answer", "expected"),
    [
        ("ansible.builtin.file", {"path": "/a", "state": "link"}, {}, ("write", "/a")),
        ("ansible.builtin.copy", {"dest": "/a", "content": "b"}, {}, ("write", "/a")),
        ("ansible.builtin.blockinfile", {"path": "/a"}, {"censored": "hidden"}, ("write", "/a")),
        ("ansible.builtin.hostname", {"name": "a"}, {}, ("arrange", "Do what nobody foresaw")),
    ],
)
def test_a_task_of_ansibles_own_modules_is_seen_too(module, arguments, answer, expected):
    one = {**hosts.provisioned(), "results": [hosts.result("network", module, arguments, **answer)]}
    action, thing = expected
    assert hosts.preview(one)["changes"] == [{"role": "network", "action": action, "objects": [thing]}]


def test_hosts_without_a_preview_say_why():
    entries = {entry["name"]: entry for entry in hosts.fleet()["hosts"]}
    assert entries["refused"]["state"] == "refused"
    assert entries["refused"]["refusal"]["code"] == "P002"
    assert entries["refused"]["present"]
    assert entries["refused"]["planned"] is None
    assert (entries["away"]["state"], entries["away"]["refusal"]["code"]) == ("unreachable", "H001")
    assert (entries["early"]["state"], entries["early"]["detail"]) == ("failed", document.EARLIER)
    assert entries["lab"]["simulated"] == "made up"


def test_what_docker_would_get_is_shown_beside_the_driver():
    one = hosts.virgin()
    settings = changes(set=['default-shm-size: "1g"'], unset=["x"])
    one["results"] += [
        hosts.predicted("container_toolkit", install={"docker.io": "26.1.5"}, downloads={"d.deb": 1000}),
        hosts.result("container_toolkit", "gpulab.node.docker_settings", changes=settings, action="restart"),
        hosts.changed("container_toolkit", admit=["ann"]),
    ]
    entry = hosts.preview(one)
    shown = hosts.actions(entry)
    assert shown["container_toolkit", "install"] == ["docker.io 26.1.5"]
    assert shown["container_toolkit", "set"] == ['default-shm-size: "1g"']
    assert shown["container_toolkit", "unset"] == ["x"]
    assert shown["container_toolkit", "admit"] == ["ann"]
    assert not any("docker" in package for package in shown["nvidia_driver", "install"])
    assert {"name": "docker", "action": "restart", "because": "its settings change"} in entry["services"]
    jsonschema.validate(document.build({"node": one}, hosts.CREATED), SCHEMA)


def test_each_role_names_its_own_packages_once():
    one = hosts.virgin()
    one["results"].append(
        hosts.predicted(
            "cuda",
            install={"gcc-12": "12.2.0-14", "cuda-toolkit-13-2": "13.2.1-1"},
            remove={"cuda-toolkit-12-9": "12.9.1-1"},
        )
    )
    found = {(change["role"], change["action"]): change["objects"] for change in hosts.preview(one)["changes"]}
    assert "gcc-12 12.2.0-14" in found["nvidia_driver", "install"]
    assert found["cuda", "install"] == ["cuda-toolkit-13-2 13.2.1-1"]
    assert found["cuda", "remove"] == ["cuda-toolkit-12-9 12.9.1-1"]
