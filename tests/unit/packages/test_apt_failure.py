"""Why apt-get failed: a table of what it printed in each case, on Debian 12 and 13."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.apt_failure import DkmsFailure, classify, dkms_failure

CASES = [
    (
        "H040",
        (
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4242 (unattended-upgr)\n"
            "N: Be aware that removing the lock file is not a solution and may break your system.\n"
            "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?\n"
        ),
        "4242 (unattended-upgr)",
    ),
    (
        "H041",
        (
            "Err:1 http://nosuch.invalid/debian trixie InRelease\n  Could not resolve 'nosuch.invalid'\n"
            "E: Failed to fetch http://nosuch.invalid/debian/dists/trixie/InRelease  Could not resolve"
            " 'nosuch.invalid'\nE: Some index files failed to download.\n"
        ),
        "E: Failed to fetch http://nosuch.invalid/debian/dists/trixie/InRelease Could not",
    ),
    (
        "H041",
        (
            "Err:1 http://nosuch.invalid/debian bookworm InRelease\n  Temporary failure resolving 'nosuch.invalid'\n"
            "E: Failed to fetch http://nosuch.invalid/debian/dists/bookworm/InRelease  Temporary failure resolving\n"
        ),
        "Temporary failure resolving",
    ),
    (
        "H041",
        (
            "E: Failed to fetch http://127.0.0.1:9/x  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111:"
            " Connection refused)\n"
        ),
        "127.0.0.1:9",
    ),
    (
        "H042",
        (
            "Err:1 http://m.example ./ p-gone 1\n  404  Not Found [IP: 192.0.2.1 80]\n"
            "E: Failed to fetch http://m.example/./p-gone_1.deb  404  Not Found [IP: 192.0.2.1 80]\n"
            "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n"
        ),
        "p-gone_1.deb",
    ),
    (
        "H042",
        (
            "Err:2 http://m.example/none trixie Release\n  404  File not found [IP: 192.0.2.1 80]\n"
            "E: The repository 'http://m.example/none trixie Release' does not have a Release file.\n"
        ),
        "does not have a Release file",
    ),
    (
        "H043",
        (
            "Err:1 http://m.example ./ p-hash 1\n  Hash Sum mismatch\n  Hashes of expected file:\n"
            "E: Failed to fetch http://m.example/./p-hash_1.deb  Hash Sum mismatch\n   Hashes of expected file:\n"
        ),
        "p-hash_1.deb",
    ),
    ("H044", "E: The repository 'http://m.example trixie Release' is not signed.\n", "m.example trixie"),
    (
        "H044",
        (
            "W: GPG error: http://m.example trixie InRelease: The following signatures couldn't be verified because the"
            " public key is not available: NO_PUBKEY A4B469963BF863CC\n"
        ),
        "A4B469963BF863CC",
    ),
    (
        "H045",
        (
            "E: Release file for http://m.example/dists/trixie/InRelease is not valid yet (invalid for another"
            " 3h 2min 1s). Updates for this repository will not be applied.\n"
        ),
        "not valid yet",
    ),
    ("H046", "E: You don't have enough free space in /var/cache/apt/archives/.\n", "/var/cache/apt/archives"),
    (
        "H046",
        (
            "dpkg: error processing archive /var/cache/apt/archives/x.deb (--unpack):\n"
            " cannot copy extracted data for './usr/bin/x' to '/usr/bin/x.dpkg-new': failed to write (No space left on"
            " device)\n"
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
        ),
        "/usr/bin/x",
    ),
    (
        "H047",
        "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem. \n",
        "dpkg was interrupted",
    ),
    (
        "H048",
        (
            "The following packages have unmet dependencies:\n p-unmet : Depends: p-nosuch but it is not installable\n"
            "E: Unable to correct problems, you have held broken packages.\n"
        ),
        "p-unmet : Depends: p-nosuch but it is not installable",
    ),
    (
        "H057",
        "E: Held packages were changed and -y was used without --allow-change-held-packages.\n",
        "Held packages",
    ),
    ("H049", "E: Unable to locate package nosuch\n", "nosuch"),
    ("H049", "E: Package 'firefox' has no installation candidate\n", "firefox"),
    ("H049", "E: Version '9' for 'dkms' was not found\n", "dkms"),
    (
        "H052",
        (
            "Setting up p-bad (1) ...\np-bad is unhappy\ndpkg: error processing package p-bad (--configure):\n"
            " installed p-bad package post-installation script subprocess returned error exit status 7\n"
            "Errors were encountered while processing:\n p-bad\n"
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
        ),
        "installed p-bad package post-installation script",
    ),
    ("H059", "Reading package lists...\nE: Something new went wrong\nE: And more\n", "E: Something new went wrong"),
    ("H059", "Killed\n", "Killed"),
    ("H059", "", "it printed nothing"),
]


@pytest.mark.parametrize(("code", "report", "line"), CASES, ids=[f"{case[0]}-{case[2][:20]}" for case in CASES])
def test_a_failure_has_its_code_and_its_essential_line(code, report, line):
    refusal = classify(report, "/the/log")
    assert refusal.code == code
    assert line in refusal.cause
    assert "\n" not in refusal.cause


# Debian 13, nvidia-open-kernel-dkms 550.163.01
DKMS = """\
Building initial module nvidia-current-open/550.163.01 for 6.12.117+deb13-cloud-amd64
Sign command: /usr/lib/linux-kbuild-6.12.117+deb13/scripts/sign-file
Building module(s)......(bad exit status: 2)
Failed command:
make -j2 KERNEL_UNAME=6.12.117+deb13-cloud-amd64 modules

Error! Bad return status for module build on kernel: 6.12.117+deb13-cloud-amd64 (x86_64)
Consult /var/lib/dkms/nvidia-current-open/550.163.01/build/make.log for more information.
dpkg: error processing package nvidia-open-kernel-dkms (--configure):
 installed nvidia-open-kernel-dkms package post-installation script subprocess returned error exit status 10
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""


def test_a_failed_dkms_build_is_told_from_other_scripts():
    log = "/var/lib/dkms/nvidia-current-open/550.163.01/build/make.log"
    failure = DkmsFailure("nvidia-current-open", "550.163.01", "6.12.117+deb13-cloud-amd64", log)
    assert dkms_failure(DKMS) == failure
    assert dkms_failure(DKMS.replace("Error! Bad return", "Good return")) is None
