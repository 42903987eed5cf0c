"""In check mode, tasks say what the facts of the run tell, and ask the node for the rest."""

from types import SimpleNamespace

import pytest
from ansible.plugins.action.normal import ActionModule as NormalAction
from ansible_collections.gpulab.node.plugins.action import owned_block, owned_files, units

ASKED = {"changed": "as the node says"}
MISSING = ["/etc/modprobe.d/gpulab-nouveau.conf", "/etc/nccl.conf", "/usr/local/lib/gpulab-monitoring"]
MISSING += ["/etc/systemd/system/gpulab-metrics.service", "/etc/systemd/system/gpulab-metrics.timer"]
SERVICES = {"nvidia-persistenced": {"load": "not-found"}, "docker": {"load": "loaded"}}
KNOWN = {"gpulab_check_mode": True, "gpulab_missing": MISSING, "gpulab": {"services": SERVICES}}
NOUVEAU = {"owner": "nouveau", "files": {MISSING[0]: "blacklist nouveau"}}


@pytest.fixture(autouse=True)
def _asked(monkeypatch):
    monkeypatch.setattr(NormalAction, "run", lambda *_arguments: ASKED)


def run(plugin, args, known=KNOWN, *, check_mode=True, delegate_to=None):
    action = plugin.ActionModule.__new__(plugin.ActionModule)
    action._task = SimpleNamespace(args=args, check_mode=check_mode, delegate_to=delegate_to)  # noqa: SLF001

    def validate(spec):
        return None, {**{name: option.get("default") for name, option in spec.items()}, **args}

    action.validate_argument_spec = validate
    return action.run(None, {"ansible_facts": known})


def test_a_file_that_is_not_there_would_be_written():
    result = run(owned_files, NOUVEAU)
    (diff,) = result.pop("diff")
    assert result == {
        "changed": True,
        "changes": [{"action": "write", "what": MISSING[0]}],
        "paths": [MISSING[0]],
    }
    assert (diff["before"], diff["after"].splitlines()[1:]) == ("", ["blacklist nouveau"])


@pytest.mark.parametrize("path", [MISSING[0], "/usr/local/lib/gpulab-monitoring/core/shown.py"])
def test_a_file_that_is_not_there_stays_away(path):
    result = run(owned_files, {"owner": "x", "files": {path: ""}})
    assert result == {"changed": False, "changes": [], "paths": [], "diff": []}


@pytest.mark.parametrize(
    ("files", "known", "more"),
    [
        ({"/etc/xdg/pip/pip.conf": "x"}, KNOWN, {}),
        ({**NOUVEAU["files"], "/etc/xdg/pip/pip.conf": ""}, KNOWN, {}),
        (NOUVEAU["files"], {**KNOWN, "gpulab_missing": []}, {}),
        (NOUVEAU["files"], {"gpulab_check_mode": True}, {}),
        (NOUVEAU["files"], {}, {}),
        (NOUVEAU["files"], {**KNOWN, "gpulab_check_mode": False}, {}),  # a run that has changed the node since
        (NOUVEAU["files"], KNOWN, {"check_mode": False}),
        (NOUVEAU["files"], KNOWN, {"delegate_to": "monitor"}),  # the facts are another node's
    ],
)
def test_of_all_else_the_node_is_asked(files, known, more):
    assert run(owned_files, {"owner": "nouveau", "files": files}, known, **more) == ASKED


def test_no_secret_is_shown():
    files = {MISSING[0]: "proxy=http://ada:canary@192.0.2.1:3128"}
    assert "canary" not in str(run(owned_files, {"owner": "base", "files": files, "private": [MISSING[0]]}))


def test_a_block_would_make_its_file():
    result = run(owned_block, {"path": "/etc/nccl.conf", "owner": "nccl", "content": "NCCL_DEBUG=WARN"})
    assert (result["changed"], result["changes"]) == (True, [{"action": "write", "what": "/etc/nccl.conf"}])
    assert "NCCL_DEBUG=WARN\n" in result["diff"][0]["after"]
    assert run(owned_block, {"path": "/etc/nccl.conf", "owner": "nccl", "content": ""})["changed"] is False
    assert run(owned_block, {"path": "/etc/fstab", "owner": "tuning", "content": "x"}) == ASKED


@pytest.mark.parametrize(
    ("names", "wanted", "is_told"),
    [
        (["nvidia-persistenced.service"], {"enabled": True}, True),
        (["gpulab-metrics.timer", "nvidia-persistenced.service"], {"state": "started"}, True),
        (["gpulab-metrics.service"], {"state": "restarted"}, True),
        (["gpulab-metrics.service", "docker.service"], {"state": "restarted"}, False),
        (["gpulab-awake.service"], {"enabled": True}, False),
        (["nvidia-persistenced.timer"], {"enabled": True}, False),
        (["tuned.service"], {"enabled": True}, False),
        (["gpulab-metrics.timer"], {"state": "stopped", "enabled": False}, False),  # it may run on without its file
    ],
)
def test_a_unit_that_is_not_there_is_neither_enabled_nor_started(names, wanted, is_told):
    told = {"changed": False, "changes": [], "steps": [], "missing": names}
    result = run(units, {"names": names, "state": "unchanged", **wanted})
    assert result == (told if is_told else ASKED)
    assert run(units, {"names": names, **wanted}, {**KNOWN, "gpulab": {"services": None}}) in (told, ASKED)
