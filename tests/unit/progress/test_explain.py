"""Causes read from results. The texts are what Ansible, OpenSSH, sudo and Docker really say."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import address_of, explain, full

SSH = "Failed to connect to the host via ssh: "
UNREACHABLE = [
    ("H001", SSH + "ssh: connect to host 192.0.2.1 port 22: Connection timed out"),
    ("H001", SSH + "ssh: connect to host 127.0.0.1 port 1: Connection refused"),
    ("H001", ""),
    ("H005", SSH + "root@192.0.2.1: Permission denied (publickey,password)."),
    (
        "H005",
        SSH + "no such identity: /root/.ssh/no: No such file or directory\r\na@b: Permission denied (publickey).",
    ),
    ("H006", SSH + "Host key verification failed."),
    ("H006", SSH + "@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed."),
    ("H007", SSH + "ssh: Could not resolve hostname nosuch: Name or service not known"),
    ("H008", "Failed to create temporary directory. mkdir: cannot create directory: No space left on device"),
]
FAILED = [
    (
        "H002",
        {"module_stderr": "/bin/sh: 1: /usr/bin/python3: not found\n", "msg": "The module interpreter was not found."},
    ),
    ("H002", {"msg": "The module interpreter '/usr/bin/python3' was not found."}),
    (
        "H002",
        {"module_stdout": "/bin/sh: line 1: /usr/bin/python3: No such file or directory", "msg": "MODULE FAILURE"},
    ),
    ("H003", {"msg": "Missing sudo password"}),
    ("H003", {"module_stderr": "sudo: a password is required\n", "msg": "MODULE FAILURE\nSee stdout/stderr"}),
    ("H004", {"msg": "Incorrect sudo password"}),
    ("H004", {"module_stderr": "ada is not in the sudoers file.\n", "msg": "MODULE FAILURE"}),
    ("H013", {"msg": "Module result deserialization failed: No start of json char found: /bin/sh: 1: sudo: not found"}),
    ("H008", {"module_stderr": "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']"}),
    ("H013", {"msg": "Module result deserialization failed: No start of json char found: /bin/sh: 1: sudo: not found"}),
    ("H008", {"module_stderr": "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp']"}),
    ("H008", {"msg": "[Errno 28] No space left on device: '/etc/x'"}),
    ("H009", {"module_stderr": "SyntaxError: future feature annotations is not defined\n", "msg": "MODULE FAILURE"}),
    ("H010", {"msg": "[Errno 30] Read-only file system: '/etc/x'"}),
]
# What Ansible says of a Python that ends without a word.
SILENT = {
    "module_stdout": "",
    "module_stderr": "",
    "msg": "Module result deserialization failed: No start of json char found",
}
FAILED += [("H016", {**SILENT, "rc": 1}), ("H016", {**SILENT, "rc": 127}), ("H017", {**SILENT, "rc": 137})]
OF_DASH, OF_BASH = "Killed\n", "/bin/bash: line 1:  4711 Killed                  sudo -H -S /usr/bin/python3\n"
FAILED += [("H017", {**SILENT, "rc": 137, "module_stderr": said}) for said in (OF_DASH, OF_BASH)]
FAILED += [
    ("H014", {"module_stdout": "", "msg": "The module interpreter was not found.", "module_stderr": text})
    for text in (
        "pyenv: python3.13: command not found\n\nThe `python3.13' command exists in these Python versions:\n  3.13.0\n",
        "pyenv: version `3.11.9' is not installed (set by /root/.pyenv/version)\n",
        "No version is set for command python3\nConsider adding a version in your config file\n",
        "mise ERROR No version is set for shim: python3\n",
    )
]
FAILED += [
    ("H015", {"module_stderr": "sudo: sorry, you must have a tty to run sudo\n", "msg": "MODULE FAILURE"}),
    ("H016", {"module_stderr": "Fatal Python error: init_fs_encoding: failed to get the Python codec\n"}),
    ("H016", {"module_stderr": "ModuleNotFoundError: No module named 'encodings'\n", "msg": "MODULE FAILURE"}),
    (
        "H016",
        {
            "module_stderr": "/usr/bin/python3: error while loading shared libraries: libpython3.11.so.1.0: cannot open"
            " shared object file: No such file or directory\n"
        },
    ),
]
TMP = (
    "Failed to create temporary directory. In some cases, you may have been able to authenticate and did not have"
    ' permissions on the target directory. Failed command was: ( umask 77 && mkdir -p "` echo ~/.ansible/tmp `" ),'
    " exited with result 1, stderr output: mkdir: cannot create directory '/nonexistent': Permission denied"
)


def test_the_file_systems_on_which_nothing_is_left_are_named():
    report = """\
Filesystem     1024-blocks    Used Available Capacity Mounted on
/dev/vda1          7000000 6650000         0     100% /
tmpfs                   32      28         4      88% /run/y
overlay            7000000 6650000         0     100% /var/lib/docker/overlay2/5dbd/merged
tmpfs               983000       0    983000       0% /tmp
none                     0       0         0        - /run/x
Filesystem      Inodes  IUsed   IFree IUse% Mounted on
/dev/vda1       440000 440000       0  100% /
/dev/vdb         10000  10000       0  100% /mnt/my data
btrfs                0      0       0     - /mnt/pool
df: /mnt/gone: Stale file handle
"""
    assert full(report) == ["/ (/dev/vda1)", "/run/y (tmpfs)", "/mnt/my data (/dev/vdb)"]


def test_a_long_message_is_cut_to_what_matters():
    refusal = explain({"msg": TMP}, "node1", unreachable=True)
    assert refusal.code == "H012"
    assert refusal.cause.endswith(
        "Failed to create temporary directory, mkdir exited with result 1, stderr output: mkdir: cannot create"
        " directory '/nonexistent': Permission denied."
    )
    assert len(explain({"msg": "x" * 5000}, "node1", unreachable=True).cause) < 400


@pytest.mark.parametrize(("code", "text"), UNREACHABLE)
def test_why_a_host_is_unreachable(code, text):
    refusal = explain({"msg": text, "unreachable": True}, "node1", unreachable=True)
    assert refusal.code == code
    assert "node1" in refusal.cause
    assert "\n" not in refusal.cause


@pytest.mark.parametrize(("code", "result"), FAILED)
def test_why_a_task_failed(code, result):
    assert explain(result, "node1").code == code


@pytest.mark.parametrize(
    "result",
    [
        {"msg": "non-zero return code", "stderr": "ls: cannot access '/x': No such file or directory", "rc": 2},
        {"msg": "Could not find the requested service nosuch: host"},
        {"msg": "non-zero return code", "stderr": "make: python.mk: No such file or directory"},
        {"msg": "Permission denied: '/root/x'"},
        {"msg": "Request failed: <urlopen error [Errno -2] Name or service not known>"},
        {"msg": "non-zero return code", "stderr": "SyntaxError: invalid syntax", "rc": 1},
        {},
    ],
)
def test_a_result_that_speaks_for_itself_is_left_alone(result):
    assert explain(result, "node1") is None


@pytest.mark.parametrize(
    ("variables", "login", "known"),
    [
        ({}, "ssh node1", "-R node1)"),
        ({"ansible_host": "192.0.2.7", "ansible_user": "ada"}, "ssh ada@192.0.2.7", "-R 192.0.2.7)"),
        ({"ansible_host": "192.0.2.7", "ansible_port": 2222}, "ssh -p 2222 192.0.2.7", "-R '[192.0.2.7]:2222')"),
        ({"ansible_host": "192.0.2.7", "ansible_port": "22"}, "ssh 192.0.2.7;", "-R 192.0.2.7)"),
        ({"ansible_host": "{{ lab }}.example", "ansible_user": "{{ me }}"}, "ssh node1", "-R node1)"),
    ],
)
def test_remedies_name_the_address_that_ssh_knows(variables, login, known):
    address = address_of("node1", variables)
    silent = explain({"msg": ""}, "node1", unreachable=True, address=address)
    assert login in silent.remedy
    changed = explain({"msg": SSH + "Host key verification failed."}, "node1", unreachable=True, address=address)
    assert known in changed.remedy


def test_a_refusal_is_taken_over():
    own = {"code": "D002", "cause": "No headers.", "remedy": "Install them."}
    refusal = explain({"refusal": own, "msg": "Missing sudo password"}, "node1")
    assert (refusal.code, refusal.cause, refusal.remedy) == ("D002", "No headers.", "Install them.")


def test_ansibles_own_words_around_the_cause_are_left_out():
    text = (
        'Task failed: Data could not be sent to remote host "192.0.2.1". Make sure this host can be reached over ssh: '
        "ssh: connect to host 192.0.2.1 port 22: Connection refused"
    )
    refusal = explain({"msg": text}, "node1", unreachable=True)
    assert refusal.cause == "node1 is unreachable: connect to host 192.0.2.1 port 22: Connection refused."
