"""The order in which the role changes Slurm, and what it leaves out in check mode."""

from pathlib import Path

import yaml

TASKS = Path(__file__).parents[3] / "roles/slurm/tasks"


def tasks(name):
    return {task["name"]: task for task in yaml.safe_load((TASKS / name).read_text(encoding="utf-8"))}


def test_check_mode_waits_for_no_limit():
    limit = tasks("controller.yml")["Limit the GPUs of a person, now that slurmctld counts them"]
    assert "not ansible_facts['gpulab_check_mode']" in limit["when"]
    people = tasks("accounts.yml")["Give the accounting the people of the inventory"]["gpulab.node.slurm_people"]
    assert people["people_pending"] == "{{ ansible_facts['gpulab_check_mode'] }}"


def test_no_job_starts_while_a_cluster_ends_and_who_was_faster_stops_it():
    names = list(tasks("end.yml"))
    order = (
        "Let no further job start",
        "Dump the state and the accounting",
        "Look for jobs that have started meanwhile",
        "Let jobs start again if there are any",
        "Stop if jobs have started meanwhile",
        "Stop the daemons of the controller",
    )
    assert [name for name in names if name in order] == list(order)
