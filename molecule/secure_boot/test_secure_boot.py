"""The secure_boot role, seen from nodes on which Debian's own mokutil speaks to a directory."""

import pytest
from scenario import nodes, playbook

KEY, CERTIFICATE = "/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub"
OF_CERTIFICATE = f"openssl x509 -inform DER -in {CERTIFICATE} -noout"


def test_the_key_of_dkms_and_no_other_waits(host):
    own = host.check_output(f"{OF_CERTIFICATE} -fingerprint -sha1").rpartition("=")[2].lower()
    waiting = host.check_output("mokutil --list-new")
    assert [line.rpartition(" ")[2] for line in waiting.splitlines() if line.startswith("SHA1")] == [own]


def test_the_key_is_for_root_alone_and_belongs_to_the_certificate(host):
    assert host.file(KEY).mode == 0o600
    assert host.check_output(f"openssl pkey -in {KEY} -pubout") == host.check_output(f"{OF_CERTIFICATE} -pubkey")


# MokAuth is four bytes of attributes, method, iterations and the salt's size, then the salt: the same password and salt
# in another request, to another directory, give the same bytes. The quotes keep what sudo logs from being the password.
SAME_REQUEST = f"""
    set -e
    elsewhere=$(mktemp --directory)
    cp /sys/firmware/efi/efivars/SecureBoot-* $elsewhere
    salt=$(tail --bytes +17 /sys/firmware/efi/efivars/MokAuth-* | head --bytes 16)
    printf for-this-''once | openssl passwd -6 -salt "$salt" -stdin > /root/hash
    EFIVARFS_PATH=$elsewhere/ /usr/bin/mokutil --import {CERTIFICATE} --hash-file /root/hash
    rm /root/hash
    cmp $elsewhere/MokAuth-* /sys/firmware/efi/efivars/MokAuth-*
"""


def test_the_console_will_take_the_password(host):
    host.check_output(SAME_REQUEST)


def test_the_password_is_nowhere_on_the_node(host):
    """The pattern is no password itself: what sudo logs of this very search must not be found."""
    pattern = "for-this-[o]nce"
    assert not host.run(f"grep --recursive --files-with-matches '{pattern}' /etc /home /root /tmp /var").stdout
    assert not host.run(f"journalctl --no-pager | grep '{pattern}'").stdout


def test_neither_nouveau_nor_driver_were_touched(host):
    assert not host.file("/etc/modprobe.d/gpulab-nouveau.conf").exists
    assert not host.run("dpkg --list | grep '^ii.*nvidia'").stdout
    assert not host.run("ls /etc/apt/sources.list.d | grep -i nvidia").stdout


def test_the_dkms_that_was_there_would_use_that_key():
    said = nodes()["debian13"].check_output("dkms generate_mok")
    assert f"Signing key: {KEY}" in said
    assert "generating" not in said


@pytest.fixture(scope="module")
def again():
    return playbook("playbooks/provision.yml", "--tags=nouveau,nvidia_driver")


def test_a_further_run_says_what_it_waits_for_and_changes_nothing(again):
    assert again.status != 0
    assert again.output.count("GPULAB-P047") >= len(nodes())
    assert "Enroll MOK, Continue, Yes" in " ".join(again.output.split())
    assert set(again.changed.values()) == {0}
