"""The jobs of cron, anacron and at, in all their places."""

import json
import os
from dataclasses import asdict
from datetime import datetime, timezone

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture import cron

CANARY = "canary"
NOBODYS = frozenset().__contains__


@pytest.fixture
def debian(tree):
    return tree.file("/var/lib/dpkg/status")


def jobs(tree, owned=NOBODYS):
    return list(map(asdict, cron.read(tree.node(), owned)))


def at_jobs(node):
    """Return the jobs of at as the manifest has them."""
    return list(map(asdict, cron.at_jobs(node)))


def script(tree, path, mode=0o755):
    tree.file(path, "#!/bin/sh\n")
    (tree.root / path.lstrip("/")).chmod(mode)


def test_the_systems_table_names_users_and_variables(debian):
    debian.file(
        cron.SYSTEM,
        "# a comment\nSHELL=/bin/sh\n\n17 *\t* * *\troot  cd / && run-parts --report /etc/cron.hourly\n"
        "'MAILTO' = \"wei\"\n@reboot mia /srv/start A=b\n",
    )
    assert jobs(debian, {cron.SYSTEM}.__contains__) == [
        {
            "path": "/etc/crontab",
            "user": "root",
            "schedule": "17 * * * *",
            "command": "cd / && run-parts --report /etc/cron.hourly",
            "environment": {"SHELL": "/bin/sh"},
            "runs": True,
            "package": True,
        },
        {
            "path": "/etc/crontab",
            "user": "mia",
            "schedule": "@reboot",
            "command": "/srv/start A=b",
            "environment": {"SHELL": "/bin/sh", "MAILTO": '"wei"'},
            "runs": True,
            "package": True,
        },
    ]


@pytest.mark.parametrize("directory", ["/var/spool/cron/crontabs", "/var/spool/cron"])
def test_a_users_table_has_no_column_of_users(tree, directory):
    tree.file(
        f"{directory}/wei", "CUDA_VISIBLE_DEVICES=0\n*/5 8-18 * * 1-5 /home/wei/train.sh now\n@daily backup /home/wei\n"
    )
    found = [(job["user"], job["schedule"], job["command"], job["package"]) for job in jobs(tree)]
    assert found == [
        ("wei", "*/5 8-18 * * 1-5", "/home/wei/train.sh now", False),
        ("wei", "@daily", "backup /home/wei", False),
    ]
    assert jobs(tree)[0]["environment"] == {"CUDA_VISIBLE_DEVICES": "0"}


def test_a_table_that_somebody_left_while_changing_it_does_not_run(debian):
    debian.file("/var/spool/cron/crontabs/tmp.Xa3", "@daily x\n")
    assert [job["runs"] for job in jobs(debian)] == [False]


def test_lines_that_are_no_jobs(debian):
    debian.file(f"{cron.PARTS}/odd", "1 2 3\n* * * * * root\n@daily root\n@reboot\n#* * * * * root x\nfoo bar\n \t\n")
    assert jobs(debian) == []


@pytest.mark.parametrize("name", ["lab", "lab-2_A"])
def test_debians_cron_reads_these_names(debian, name):
    debian.file(f"{cron.PARTS}/{name}", "@daily root x\n")
    assert jobs(debian)[0]["runs"]


@pytest.mark.parametrize("name", ["lab.sh", "lab~", "lab.dpkg-old", ".lab"])
def test_debians_cron_passes_over_these_names(debian, name):
    debian.file(f"{cron.PARTS}/{name}", "@daily root x\n")
    assert [(job["path"], job["runs"]) for job in jobs(debian)] == [(f"/etc/cron.d/{name}", False)]


@pytest.mark.parametrize(("name", "runs"), [("lab.sh", True), ("lab~", False), (".lab", False), ("lab.rpmsave", False)])
def test_cronies_names(tree, name, runs):
    tree.file(f"{cron.PARTS}/{name}", "@daily root x\n")
    assert jobs(tree)[0]["runs"] is runs


def test_a_name_that_is_not_utf_8(debian):
    debian.directory(cron.PARTS)
    place = os.fsencode(debian.root / "etc/cron.d") + b"/lab\xff"
    with open(place, "wb") as file:  # noqa: PTH123 - a name of bytes
        file.write(b"@daily root run \xfe\n")
    found = jobs(debian)
    assert [(job["path"], job["runs"]) for job in found] == [("/etc/cron.d/lab\udcff", False)]
    assert "lab\\udcff" in json.dumps(found)


def test_scripts_of_directories(debian):
    script(debian, "/etc/cron.daily/lab-backup")
    script(debian, "/etc/cron.weekly/lab", 0o644)
    script(debian, "/etc/cron.hourly/lab.sh")
    debian.file("/etc/cron.monthly/.placeholder").link("/etc/cron.daily/gone", "/srv/gone")
    found = {job["path"]: (job["schedule"], job["user"], job["runs"]) for job in jobs(debian)}
    assert found == {
        "/etc/cron.daily/lab-backup": ("daily", "root", True),
        "/etc/cron.daily/gone": ("daily", "root", False),
        "/etc/cron.weekly/lab": ("weekly", "root", False),
        "/etc/cron.hourly/lab.sh": ("hourly", "root", False),
    }


def test_anacron(tree):
    tree.file(
        cron.ANACRON,
        "SHELL=/bin/sh\n1\t5\tcron.daily\trun-parts /etc/cron.daily\n@monthly 45 lab nice tidy up\n7 10 x\n",
    )
    assert [(job["user"], job["schedule"], job["command"]) for job in jobs(tree)] == [
        ("root", "1 days", "run-parts /etc/cron.daily"),
        ("root", "@monthly", "nice tidy up"),
    ]


def test_no_secret_is_returned(tree):
    tree.file(
        cron.SYSTEM,
        f"DB_PASSWORD={CANARY}\nURL = https://wei:{CANARY}@lab/\n"
        f"* * * * * root mysqldump -uroot -p{CANARY} x\n@daily root login%{CANARY}%{CANARY}\n"
        f"@daily root run --token {CANARY} %{CANARY}\n",
    )
    tree.file("/var/spool/cron/wei", f"@daily curl -u wei:{CANARY} http://lab\n@daily KEY={CANARY} run\n")
    tree.file(cron.ANACRON, f"API_KEY={CANARY}\n1 5 x run https://wei:{CANARY}@lab\n")
    found = jobs(tree)
    assert [job["path"] for job in found] == ["/etc/crontab"] * 3 + ["/var/spool/cron/wei"] * 2 + ["/etc/anacrontab"]
    assert CANARY not in json.dumps(found)


def test_what_a_command_reads_is_hidden_and_a_percent_sign_of_its_own_is_not(tree):
    tree.file(
        "/var/spool/cron/wei", "@daily tar c /home > $(date +\\%F).tar\n@daily mail mia%hello%there\n@daily a\\\n"
    )
    assert [job["command"] for job in jobs(tree)] == ["tar c /home > $(date +\\%F).tar", "mail mia%***", "a\\"]


def test_a_table_on_a_server_that_may_not_answer_is_not_read(tree):
    tree.file("/proc/self/mountinfo", "1 0 8:2 / / rw - ext4 /dev/sda2 rw\n2 1 0:4 / /nfs rw - nfs4 nas:/ rw\n")
    tree.file("/nfs/lab", "@daily root x\n").link(f"{cron.PARTS}/lab", "../../nfs/lab")
    script(tree, "/nfs/run")
    tree.link("/etc/cron.daily/lab", "../../nfs/run")
    assert [(job["path"], job["runs"]) for job in jobs(tree)] == [("/etc/cron.daily/lab", False)]


@pytest.mark.parametrize("directory", cron.AT)
def test_jobs_of_at_without_their_text(tree, directory):
    minutes = f"{int(datetime(2026, 11, 26, 14, 30, tzinfo=timezone.utc).timestamp()) // 60:08x}"
    tree.file("/etc/passwd", "wei:x:1001:1001::/home/wei:/bin/sh\n")
    text = (
        f"#!/bin/sh\n# atrun uid=1001 gid=1001\nHF_TOKEN={CANARY}; export HF_TOKEN\ncd /home/wei || exit 1\n{CANARY}\n"
    )
    tree.file(f"{directory}/a00001{minutes}", text).file(f"{directory}/.SEQ", "1")
    tree.file(f"{directory}/b00002{minutes}", text.replace("1001", "4242"))
    found = at_jobs(tree.node())
    assert found == [
        {"path": f"{directory}/a00001{minutes}", "user": "wei", "time": "2026-11-26T14:30:00Z"},
        {"path": f"{directory}/b00002{minutes}", "user": "4242", "time": "2026-11-26T14:30:00Z"},
    ]


def test_a_node_without_cron(tree):
    assert jobs(tree) == []
    assert at_jobs(tree.node()) == []
