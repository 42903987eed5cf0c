"""The role's own tasks and the module move strays aside for real, in a namespace with an /opt of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")]

ROOT = Path(__file__).parents[3]
TREE = "/opt/cuda-of-somebody"
ROLE = ROOT / "roles/cuda"
PLAY = [
    {
        "hosts": "localhost",
        "gather_facts": False,
        "vars_files": [str(ROLE / "vars/main.yml")],
        "vars": {"cuda_state": "present", "cuda_remove_strays": [TREE]},
        "tasks": [
            {"ansible.builtin.set_fact": {"gpulab_check_mode": "{{ ansible_check_mode }}", "cacheable": True}},
            {"ansible.builtin.import_tasks": str(ROLE / "tasks/strays.yml")},
        ],
        "handlers": [{"name": "Refresh the linker cache", "ansible.builtin.debug": {"msg": "ldconfig"}}],
    }
]
PLAN = {"__cuda_plan": {"toolkits": [], "home": None}, "__cuda_packages_wanted": []}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Return what is there after each run: in check mode, for real, again, and with cuda_state absent."""
    directory = tmp_path_factory.mktemp("play")
    (directory / "play.yml").write_text(yaml.safe_dump(PLAY), encoding="utf-8")
    play = f"{Path(sys.executable).with_name('ansible-playbook')} -i localhost, -c local {directory}/play.yml"
    given = {**PLAN, "ansible_python_interpreter": sys.executable}
    extra = f"-e '{json.dumps(given)}'"
    show = "find /opt /var/lib/gpulab -type f | sort; echo ==="
    lines = [
        f"mount -t tmpfs tmpfs /opt && mkdir -p /var/lib/gpulab {TREE}/bin && touch {TREE}/bin/nvcc",
        "mount -t tmpfs tmpfs /var/lib/gpulab",
        *(f"{play} {extra} {options}; {show}" for options in ("--check", "", "", "-e cuda_state=absent")),
    ]
    told = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "\n".join(lines)],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    if "unshare failed" in told.stderr or "permission denied" in told.stderr:
        pytest.skip("no mount namespace here")
    assert told.returncode == 0, told.stdout + told.stderr
    return told.stdout.split("===")


def test_a_stray_goes_and_comes_back(output):
    foretold, gone, again, back, _end = output
    assert f"{TREE}/bin/nvcc" in foretold
    assert "changed=1" in foretold
    assert "/opt/.gpulab-strays/cuda-of-somebody/bin/nvcc" in gone
    assert f"{TREE}/bin/nvcc" not in gone.replace(f"{TREE} (kept", "")
    assert "changed=0" in again
    assert f"{TREE}/bin/nvcc" in back
    assert "cuda-strays.json" not in back
