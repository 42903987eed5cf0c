"""The module kernel_modules, with a made list of what is loaded."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.modules import kernel_modules


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the module with options and returns (commands, result)."""
    loaded = tmp_path / "modules"
    loaded.write_text("nvidia_drm 77824 4 - Live 0x0\nnvidia 62377984 2 nvidia_drm, Live 0x0\n")
    monkeypatch.setattr(kernel_modules, "LOADED", loaded)

    def answer(check_mode, **params):
        ran, result = [], {}
        module = SimpleNamespace(
            params=params,
            check_mode=check_mode,
            run_command=lambda argv, **_: ran.append(argv),
            exit_json=result.update,
        )
        monkeypatch.setattr(kernel_modules, "AnsibleModule", lambda **_: module)
        kernel_modules.main()
        return ran, result

    return answer


@pytest.mark.parametrize(
    ("names", "state", "called"),
    [
        (["nvidia", "nvidia-uvm"], "present", [["modprobe", "nvidia-uvm"]]),
        (["nvidia"], "present", []),
        (["nvidia-drm", "nouveau"], "absent", [["modprobe", "--remove", "nvidia-drm"]]),
        (["nouveau"], "absent", []),
    ],
)
@pytest.mark.parametrize("check_mode", [False, True])
def test_what_is_not_as_it_shall_be_is_loaded_or_unloaded(run, check_mode, names, state, called):
    ran, result = run(check_mode, names=names, state=state)
    assert ran == ([] if check_mode else called)
    action = "load" if state == "present" else "unload"
    assert result == {"changed": bool(called), "changes": [{"action": action, "what": argv[-1]} for argv in called]}
