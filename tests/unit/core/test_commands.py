"""Commands without their secrets: what is hidden, and that the rest can still be read."""

import time

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.commands import (
    is_secret,
    shown,
    shown_options,
    shown_value,
)
from hypothesis import given
from hypothesis import strategies as st

CANARY = "canary"

HIDING = [
    "PASSWORD={} run",
    "export MY_KEY='{0} {0}'; run",
    "AWS_SECRET_ACCESS_KEY={} aws s3 ls",
    "MYSQL_PWD={} mysqldump lab",
    "dsn=postgres://lab:{}@db/lab run",
    "mount -t cifs -o username=wei,password={} //nas/lab /mnt",
    "run --set=password={} --now",
    "run -e TOKEN={} -v /srv:/srv",
    "docker login -u wei -p {} registry",
    "run --password={}",
    'run --password="{0} {0}"',
    "run --password=a';b'{}",
    "run --db-pass={}",
    "run -password {}",
    "run --token '{0} {0}' --now",
    "run PASSWORD: {}",
    'curl -H "Authorization: Bearer {}" http://lab',
    "curl -H 'X-Lab: {}' http://lab",
    "curl --header 'PRIVATE-TOKEN: {}' http://lab",
    'curl -d \'{{"password": "{}"}}\' http://lab',
    "curl -u wei:{} http://lab",
    "curl -u wei:'{0} {0}' http://lab",
    "curl --user 'wei:{0} {0}' http://lab",
    "smbclient -U wei%{} //lab/x",
    "mysqldump -u root -p{} lab",
    "sshpass -p {} ssh lab",
    "redis-cli -a {} ping",
    "ldapsearch -x -w {}",
    "openssl enc -k {} -in x",
    "echo {} | sudo -S true",
    "kinit wei <<< {}",
    "rsync -a https://wei:{}@lab/x /srv",
    "wget --http-password={} http://lab",
]


@pytest.mark.parametrize("command", HIDING)
def test_secrets_are_hidden(command):
    text = command.format(CANARY)
    assert CANARY in text
    assert CANARY not in shown(text)


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        (
            "curl https://hooks.lab/services/T00/B00/AbCdEfGhIjKlMnOpQrStUv12",
            "curl https://hooks.lab/services/T00/B00/***",
        ),
        ("curl https://ping.lab/0f6b1a3e-1111-2222-3333-444455556666", "curl https://ping.lab/***"),
        ("run --wait sk-proj-a1b2c3d4e5f6g7h8i9j0-tail", "run --wait ***"),
    ],
)
def test_random_words_are_hidden(command, seen):
    assert shown(command) == seen


@pytest.mark.parametrize(
    "command",
    [
        "test -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.daily )",
        "[ -x /usr/lib/php/sessionclean ] && if [ ! -d /run/systemd/system ]; then /usr/lib/php/sessionclean; fi",
        "restic --password-file /root/.restic backup /home",
        "/home/wei/run_experiment_20241126_version2 --lr=0.1 --keyboard us > /dev/null 2>&1",
        "tar czf /backup/home.tgz /home && find /backup -mtime +7 -delete",
        "ssh -p 22 backup@nas true",
    ],
)
def test_other_commands_stay_as_they_are(command):
    assert shown(command) == command


def test_control_codes_are_removed():
    assert shown("run \x1b[2Jnow\x07") == "run now"


@pytest.mark.parametrize(
    "name", ["PASSWORD", "hfToken", "--api-key", "PGPASSWORD", "awsSecretKey", "DB_PASS", "SSH_AUTH"]
)
def test_names_of_secrets(name):
    assert is_secret(name)
    assert shown_value(name, CANARY) == "***"


@pytest.mark.parametrize("name", ["PATH", "MAILTO", "KEYMAP", "RESTIC_PASSWORD_FILE", "compass", "monkey"])
def test_other_names(name):
    assert not is_secret(name)
    assert shown_value(name, "/usr/bin") == "/usr/bin"


def test_the_value_of_any_variable_is_a_command():
    assert shown_value("RSYNC", f"rsync://wei:{CANARY}@lab") == "rsync://***@lab"


def test_long_commands_are_cut_at_a_word_and_take_no_time():
    before = time.process_time()
    for text in ("a1" * 50_000, "'" * 50_000, "-u " * 20_000, "a=" * 50_000, "echo " * 20_000):
        shown(text)
    assert time.process_time() - before < 5
    assert shown(f"{'run ' * 248}https://wei:{CANARY}@lab") == f"{'run ' * 248}***"


@given(st.text(alphabet="ab1 =:-'\"\\|<>/@%uPp\n", max_size=200))
def test_no_command_is_too_odd(text):
    shown(text)


def test_options_of_a_mount_are_shown_without_passwords():
    options = "addr=nas,username=wei,password=canary,pass=canary,uid=1,ro"
    assert shown_options(options) == "addr=nas,username=wei,password=***,pass=***,uid=1,ro"
