"""What follows from the changes: services that restart, and a reboot."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes

from unit.checks import nodes
from unit.preview import hosts

UNIT = "ansible.builtin.systemd_service"


@pytest.mark.parametrize("listed", [True, False])
def test_nouveau_lets_go_only_at_a_reboot(listed):
    reboot = hosts.preview(hosts.virgin(listed=listed))["reboot"]
    assert reboot["needed"]
    assert "nouveau holds GPU 0000:19:00.0, 0000:29:00.0" in reboot["because"][0]
    assert reboot["refusal"] is None


def test_nouveau_that_nothing_uses_lets_go_at_once():
    one = hosts.virgin()
    one["results"].append(hosts.changed("nouveau", unload=["nouveau"]))
    entry = hosts.preview(one)
    assert not entry["reboot"]["needed"]
    assert hosts.actions(entry)["nouveau", "unload"] == ["nouveau"]
    assert hosts.actions(entry)["reboot", "load"] == ["nvidia", "nvidia_uvm"]


def test_a_new_driver_is_loaded_without_a_reboot_where_nothing_holds_the_gpus():
    one = hosts.virgin()
    one["facts"]["nouveau"]["bound"] = []
    entry = hosts.preview(one)
    assert not entry["reboot"]["needed"]
    assert hosts.actions(entry)["reboot", "load"] == ["nvidia", "nvidia_uvm"]


def test_a_driver_that_is_only_built_for_the_next_kernel_needs_a_reboot():
    one = hosts.virgin()
    one["facts"]["nouveau"]["bound"] = []
    one["plan"]["driver"]["kernels"] = [nodes.NEXT_KERNEL]
    reboot = hosts.preview(one)["reboot"]
    assert f"not for the running kernel {nodes.KERNEL}" in reboot["because"][0]


def test_an_upgrade_restarts_the_daemon_and_reboots():
    entry = hosts.preview(hosts.upgradable())
    assert f"nvidia-kernel-dkms {hosts.OLD}-1 -> {hosts.NEW}-1" in hosts.actions(entry)["nvidia_driver", "change"]
    assert entry["services"] == [{"name": "nvidia-persistenced", "action": "restart", "because": "its package changes"}]
    assert f"{hosts.OLD} is loaded, but {hosts.NEW} is installed" in entry["reboot"]["because"][0]
    assert entry["download"]["bytes"] == 200_000_000
    assert {disk["mount"] for disk in entry["disk"]} == {"/"}


def test_a_changed_unit_restarts_the_daemon():
    one = hosts.provisioned()
    one["results"] = [hosts.written("nvidia_driver", hosts.UNIT_FILE)]
    assert [one["action"] for one in hosts.preview(one)["services"]] == ["restart"]


NODES = "/etc/nvidia-imex/nodes_config.cfg"


@pytest.mark.parametrize(("restart", "action"), [(True, "restart"), (False, "start")])
def test_nodes_of_imex_are_named_and_what_it_does_for_them(restart, action):
    one = hosts.provisioned()
    one["plan"]["imex"] = {"service": "nvidia-imex", "restart": restart}
    one["results"] = [hosts.result("nvidia_driver", "ansible.builtin.copy", {"dest": NODES, "mode": "0644"})]
    entry = hosts.preview(one)
    assert hosts.actions(entry)["nvidia_driver", "write"] == [NODES]
    assert [(one["name"], one["action"]) for one in entry["services"]] == [("nvidia-imex", action)]


@pytest.mark.parametrize(
    ("variables", "state", "code"),
    [
        pytest.param({}, "busy", "H030", id="busy"),
        pytest.param({}, "unknown", "H030", id="nobody-can-tell"),
        pytest.param({}, "idle", None, id="idle"),
        pytest.param({"force": "node"}, "busy", None, id="forced"),
        pytest.param({"force": "other"}, "busy", "H030", id="another-one-forced"),
        pytest.param({"policy": "never"}, "idle", "H031", id="never"),
    ],
)
def test_a_reboot_that_site_yml_would_refuse_is_named(variables, state, code):
    one = hosts.busy(hosts.upgradable(**variables))
    users = one["facts"]["users_of_gpus"]
    users.update(state=state, who=[] if state == "idle" else users["who"], sessions=[])
    refusal = hosts.preview(one)["reboot"]["refusal"]
    assert (refusal and refusal["code"]) == code
    if code == "H030":
        assert "python3 (PID 4711, user alice)" in refusal["cause"]
        assert "nvidia-persiste" not in refusal["cause"]


def test_work_without_a_gpu_that_a_reboot_would_end_is_named():
    one = hosts.busy(hosts.upgradable())
    one["facts"]["users_of_gpus"].update(state="idle", who=[])
    assert "alice, who is logged in (rsync)" in hosts.preview(one)["reboot"]["refusal"]["cause"]
    one["facts"]["users_of_gpus"]["sessions"][0]["desktop"] = True
    assert "alice at a desktop" in hosts.preview(one)["reboot"]["refusal"]["cause"]


def test_busy_gpus_do_not_matter_where_nothing_reboots():
    one = hosts.busy(hosts.provisioned())
    entry = hosts.preview(one)
    assert entry["users"] == {
        "state": "busy",
        "who": [hosts.WORK],
        "sessions": one["facts"]["users_of_gpus"]["sessions"],
    }
    assert entry["state"] == "unchanged"


def test_a_due_reboot_is_a_change_by_itself():
    one = hosts.provisioned()
    one["facts"]["modules"]["nvidia"]["version"] = "535.1.1"
    entry = hosts.preview(one)
    assert (entry["state"], entry["changes"], entry["reboot"]["needed"]) == ("changes", [], True)


def test_a_docker_that_its_packages_do_not_start_is_predicted_to_start():
    one = hosts.virgin()
    engines = {"docker-ce": "3:29.7.2-1.el9"}
    one["results"].append(hosts.predicted("container_toolkit", "container-engines", install=engines))
    one["plan"]["container_toolkit"]["docker"] = {"required": {}, "settings": {}, "start": True}
    assert {"name": "docker", "action": "start", "because": "its package is installed"} in hosts.preview(one)[
        "services"
    ]


def test_ecc_takes_a_reboot():
    one = hosts.provisioned()
    address = one["facts"]["nvml"]["gpus"][0]["bus_id"]
    one["facts"]["nvml"]["gpus"][0]["ecc"]["mode"] = {"enabled": True, "pending": True}
    one["plan"]["gpu_settings"]["settings"] = {"all": {"ecc": False}}
    steps = [{"gpu": address, "name": "ecc", "before": True, "after": False}]
    one["results"] = [hosts.result("gpu_settings", "gpulab.node.gpu_settings", changes=[], steps=steps)]
    entry = hosts.preview(one)
    assert entry["reboot"]["because"] == [f"ECC of GPU {address} turns off only at a reboot"]


def test_a_driver_from_a_run_file_brings_a_reboot_where_another_one_is_loaded():
    one = hosts.provisioned()
    one["plan"]["driver"]["version"] = "999.1"
    assert hosts.preview(one)["reboot"]["needed"] is False
    one["results"] = [runfile("999.1", changes(install=["driver 999.1 from its .run file"]))]
    assert "999.1" in " ".join(hosts.preview(one)["reboot"]["because"])


def runfile(planned, told):
    return hosts.result("nvidia_driver", "gpulab.node.nvidia_runfile", changes=told, planned=planned)


@pytest.mark.parametrize(
    ("planned", "told"),
    [("999.1", []), (None, changes(remove=["driver 580.1 of a .run file"]))],
    ids=["fetched", "removed"],
)
def test_a_run_file_that_installs_nothing_brings_no_driver(planned, told):
    one = hosts.provisioned()
    one["plan"]["driver"]["version"] = "999.1"
    one["results"] = [runfile(planned, told)]
    assert hosts.preview(one)["reboot"]["needed"] is False
