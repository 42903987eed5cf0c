"""The commands of the documents: each is run by a test, or says here why not, and its settings and tags exist."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import unread

from .test_documents import PAGES, ROOT

# What a command begins with -> the test that runs it, or why none does.
RUN_BY = {
    "make lab": "tests/lab/test_site.py",
    "make lab-down": "why: the tests call lab/down.yml, which it runs, by tests/lab/laboratory.py",
    "./gpulab.py": "tests/unit/test_command.py",
    "ansible-playbook playbooks/plan.yml": "tests/lab/test_plan_preview.py",
    "ansible-playbook site.yml": "tests/lab/test_site.py",
    "ansible-playbook -i examples/two_workstations/hosts.yml": "tests/unit/test_examples.py",
    "ansible-playbook playbooks/reinstall.yml": "molecule/capture/test_capture.py",
    "ansible-playbook playbooks/media.yml": "tests/vm/test_media.py",
    "ansible-playbook playbooks/rollout.yml": "tests/lab/rollouts.py",
    "ansible-playbook playbooks/fence.yml": "tests/lab/test_slurm_join.py",
    "ansible-playbook playbooks/slurm.yml": "tests/lab/test_slurm_join.py",
    "ansible-playbook playbooks/whole_lab.yml": "tests/lab/test_people.py",
    "ansible-playbook playbooks/users.yml": "molecule/users/test_users.py",
    "ansible-playbook playbooks/jupyter.yml": "molecule/jupyter/test_jupyter.py",
    "python3 -BEs /usr/local/lib/gpulab-models/models.py": "molecule/model_store/test_model_store.py",
    "ansible-playbook playbooks/usage.yml": "molecule/monitoring_server/test_monitoring_server.py",
    "ansible-playbook playbooks/advisories.yml": "molecule/container_toolkit/test_container_toolkit.py",
    "ansible-playbook playbooks/bmc.yml": "tests/unit/bmc/test_playbook.py",
    "ansible-playbook playbooks/export.yml": "molecule/export/test_export.py",
    "ansible-playbook playbooks/acceptance.yml": "molecule/acceptance/test_acceptance.py",
    "ansible-playbook playbooks/acceptance_verify.yml": "tests/unit/acceptance/test_playbook.py",
    "ansible-playbook playbooks/bundle.yml": "tests/lab/test_offline.py",
    "ansible-playbook playbooks/bundle_verify.yml": "tests/unit/bundle/test_folder.py",
    "ansible-playbook playbooks/history.yml": "tests/unit/history/test_playbook.py",
    "ansible-playbook playbooks/verify.yml -e verify_level=standard -e verify_across_nodes": "tests/vm/test_rdma.py",
    "ansible-playbook playbooks/nightly.yml": "molecule/nightly/converge.yml",
    "ansible-playbook playbooks/monitoring_server.yml": "molecule/monitoring_server/converge.yml",
    "ansible-playbook playbooks/diagnose.yml": "tests/unit/diagnosis/test_playbook.py",
    "ansible-playbook playbooks/record.yml": "tests/unit/gpu/test_playbook.py",
    "ansible-playbook playbooks/remove.yml": "tests/lab/test_site.py",
    "ansible-playbook playbooks/capture.yml": "molecule/capture/test_capture.py",
    "ansible-playbook playbooks/capture_compare.yml": "tests/unit/captures/test_compare_playbook.py",
    "ansible-playbook gpulab.node.": "tests/unit/test_artefact.py",
    "ansible-galaxy collection": "tests/unit/test_artefact.py",
    "python3 -m venv": "why: it installs gpulab; docs/install.md has what was seen on fresh machines",
    "sudo apt-get install": "why: as python3 -m venv",
    "ansible-pull": "why: it needs a git server of the lab's",
    "srun": "molecule/slurm/test_slurm.py",
    "systemctl": "why: a Slurm controller restored by hand from its backup",
    "mariadb": "why: as systemctl",
}
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
NO_COMMANDS = {"docs/errors.md", "docs/architecture.md"}  # what programs print, and drawings
SHELL = ("", "bash", "sh", "console")


def commands():
    """Return the command lines of all pages, each once, without comments and prompts."""
    lines = set()
    for page in PAGES:
        if str(page.relative_to(ROOT)) in NO_COMMANDS:
            continue
        for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in SHELL:
                whole = block.replace("\\\n", " ")
                lines |= {re.sub(r"\s#\s.*", "", line).strip().removeprefix("$ ") for line in whole.splitlines()}
    return sorted(line for line in lines if line.startswith(tuple(program.split()[0] for program in RUN_BY)))


def settings(line):
    """Return the names of the settings that a command line gives by -e."""
    words = shlex.split(line) if line.startswith(("ansible", "./gpulab.py")) else []
    values = [value for option, value in zip(words, words[1:]) if option in {"-e", "--set"}]
    return [name for value in values for name in (json.loads(value) if value[0] == "{" else [value.partition("=")[0]])]


def texts_of_tests():
    """Return all texts of tests and scenarios but this one."""
    paths = [*(ROOT / "tests").rglob("*"), *(ROOT / "molecule").rglob("*")]
    texts = [path for path in paths if path.suffix in {".py", ".yml"} and path != Path(__file__)]
    return "\n".join(path.read_text(encoding="utf-8") for path in texts)


@pytest.mark.parametrize("line", commands())
def test_a_command_is_run_by_a_test_or_says_why_not(line):
    assert [begin for begin in RUN_BY if line.startswith(begin)], f"add to RUN_BY who runs: {line}"


@pytest.mark.parametrize(("begin", "test"), RUN_BY.items())
def test_who_runs_a_command_does_so(begin, test):
    assert any(line.startswith(begin) for line in commands()), "no page has it any more"
    if not test.startswith("why: "):
        subject = begin.split()[-1].rpartition("/")[2].removeprefix("gpulab.node.").removesuffix(".yml")
        assert subject in (ROOT / test).read_text(encoding="utf-8")


def test_each_setting_of_a_command_is_known_and_tried():
    known, texts = options.load().options, texts_of_tests()
    for line in commands():
        for name in settings(line):
            assert name in known or f"diagnose_{name}" in known, line
            assert name in texts, f"no test gives {name}: {line}"


def test_each_tag_of_a_command_exists():
    for line in commands():
        for tags in re.findall(r"--(?:skip-)?tags[ =](\S+)", line):
            assert set(tags.split(",")) <= set(unread.TAGS), line
