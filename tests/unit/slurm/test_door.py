"""The facts ``slurm.door``: what nobody met when he tried to open a GPU, and the ways round."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
from ansible_collections.gpulab.node.plugins.module_utils.facts import door

SYSTEMD = "session optional pam_systemd.so\n"
TREE = {
    door.POLICY: "[Slice]\n",
    "/dev/nvidia0": "",
    "/dev/nvidiactl": "",
    "/usr/lib/x86_64-linux-gnu/security/pam_systemd.so": "",
    "/usr/sbin/sshd": "",
    "/etc/pam.d/sshd": "@include common-session\n",
    "/etc/pam.d/common-session": SYSTEMD,
    "/etc/group": "docker:x:999:\nada:x:1000:\n",
}
CLOSED = (2, "", "/usr/bin/sh: 1: cannot open /dev/nvidia0: Operation not permitted\n")


class Answer:
    """A command that has ended, or not in time."""

    def __init__(self, found):
        """Take exit status, output and errors; None where it was late."""
        self.found = found

    def result(self):
        """Return it."""
        return self.found


def read(root, answer=CLOSED, asked=None, **files):
    for path, text in {**TREE, **files}.items():
        if text is not None:
            (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (root / path.lstrip("/")).write_text(text)

    def start(argv):
        if asked is not None:
            asked.append(argv)
        return Answer(answer)

    return door.DoorQuery(Node(root, start)).facts()


def test_a_closed_door(tmp_path):
    asked = []
    assert read(tmp_path, asked=asked) == {"opens": False, "why": "", "beside": [], "as_root": []}
    (argv,) = asked
    assert {"--slice=user-65534.slice", "--uid=65534"} <= set(argv)
    assert argv[-1] == ": < /dev/nvidia0"


def test_where_nothing_was_closed_nobody_tries(tmp_path):
    asked = []
    assert read(tmp_path, asked=asked, **{door.POLICY: None}) is None
    assert asked == []


@pytest.mark.parametrize(
    "answer",
    [
        (0, "", ""),
        (2, "", "/usr/bin/sh: 1: cannot open /dev/nvidia0: No such device or address\n"),
        (2, "", "/usr/bin/sh: 1: cannot open /dev/nvidia0: Input/output error\n"),
    ],
)
def test_an_open_door(tmp_path, answer):
    """Whatever the driver answers, it was reached."""
    assert read(tmp_path, answer)["opens"] is True


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "in time"),
        ((2, "", "/usr/bin/sh: 1: cannot open /dev/nvidia0: Permission denied"), "Permission denied"),
        ((1, "", "Failed to connect to bus: Operation not permitted"), "Failed to connect"),
        ((1, "", ""), "exit status 1"),
    ],
)
def test_a_door_that_could_not_be_tried(tmp_path, answer, why):
    found = read(tmp_path, answer)
    assert (found["opens"], why in found["why"]) == (None, True)


def test_a_node_without_a_gpu_has_no_door(tmp_path):
    found = read(tmp_path, **{"/dev/nvidia0": None})
    assert (found["opens"], "no device file" in found["why"]) == (None, True)


CRON = {"/usr/sbin/cron": "", "/etc/pam.d/common-session-noninteractive": "session required pam_unix.so\n"}
WAYS = {
    "cron": ({**CRON, "/etc/pam.d/cron": "@include common-session-noninteractive\n"}, ["cron"]),
    "cron whose line is a comment": ({**CRON, "/etc/pam.d/cron": f"# {SYSTEMD}"}, ["cron"]),
    "cron with a session": ({**CRON, "/etc/pam.d/cron": f"@include common-session-noninteractive\n{SYSTEMD}"}, []),
    "at": ({"/usr/sbin/atd": "", "/etc/pam.d/atd": ""}, ["atd"]),
    "at with a session": ({"/usr/sbin/atd": "", "/etc/pam.d/atd": "-session optional pam_systemd.so class=x\n"}, []),
    "systemd-cron": ({door.UNITS_OF_CRON: ""}, ["systemd-cron"]),
    "sshd without PAM": ({"/etc/ssh/sshd_config.d/own.conf": "  usepam No\n"}, ["sshd"]),
    "sshd with PAM": ({"/etc/ssh/sshd_config": "UsePAM yes\n#UsePAM no\n"}, []),
    "sshd without a session": ({"/etc/pam.d/common-session": "session required pam_unix.so\n"}, ["sshd"]),
    "a session by include": ({"/etc/pam.d/sshd": "session include common-session\n"}, []),
    "files that include each other": (
        {"/etc/pam.d/sshd": "@include other\n", "/etc/pam.d/other": "@include sshd\n"},
        ["sshd"],
    ),
    "no libpam-systemd": ({"/usr/lib/x86_64-linux-gnu/security/pam_systemd.so": None}, ["sshd"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_round_are_named(tmp_path, way):
    files, beside = WAYS[way]
    assert read(tmp_path, **files)["beside"] == beside


def test_members_of_a_containers_daemon_are_named(tmp_path):
    text = "docker:x:999:ben,ada\nlxd:x:998:ada\nadm:x:4:eve\nbroken\n"
    assert read(tmp_path, **{"/etc/group": text})["as_root"] == ["ada", "ben"]
