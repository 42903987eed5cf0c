"""Why dnf failed: lines that dnf 4 printed, and the code that each is told by."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages.dnf_failure import classify

REPORTS = {
    "unsigned": ("H044", "Package nvidia-unsigned-1-1.x86_64.rpm is not signed\nError: GPG check FAILED\n"),
    "metadata that do not fit their signature": (
        "H229",
        "Error: Failed to download metadata for repo 'nv': GPG signature verification error: Bad GPG signature\n",
    ),
    "altered": (
        "H043",
        (
            "[MIRROR] nvidia-altered-1-1.x86_64.rpm: Downloading successful, but checksum doesn't match.\n"
            "Error: Error downloading packages:\n  Cannot download, all mirrors were already tried without success\n"
        ),
    ),
    "unreachable": (
        "H041",
        (
            "Errors during downloading metadata for repository 'nv':\n"
            "  - Curl error (7): Couldn't connect to server for http://m/ [Failed to connect to m port 80]\n"
            "Error: Failed to download metadata for repo 'nv': Cannot download repomd.xml: All mirrors were tried\n"
        ),
    ),
    "gone": (
        "H042",
        (
            "  - Status code: 404 for http://m/repodata/repomd.xml (IP: 192.0.2.1)\n"
            "Error: Failed to download metadata for repo 'nv': Cannot download repomd.xml: All mirrors were tried\n"
        ),
    ),
    "unknown": ("H049", "No match for argument: nosuch\nError: Unable to find a match: nosuch\n"),
    "no space": ("H046", "Error: Transaction test error:\n  At least 512MB more space needed on the / filesystem.\n"),
    "conflict": (
        "H048",
        "\n Problem: a-1.x86_64 requires b, but none of the providers can be installed\n  - conflicting requests\n",
    ),
    "scriptlet": ("H052", "error: %prein(a-1.x86_64) scriptlet failed, exit status 1\n"),
    "certificate": (
        "H041",
        (
            "  - Curl error (60): SSL peer certificate or SSH remote key was not OK for https://m/repodata/repomd.xml\n"
            "Error: Failed to download metadata for repo 'nv': Cannot download repomd.xml: All mirrors were tried\n"
        ),
    ),
    "login": (
        "H214",
        (
            "  - Status code: 403 for https://m/repodata/repomd.xml (IP: 192.0.2.1)\n"
            "Error: Failed to download metadata for repo 'nv': Cannot download repomd.xml: All mirrors were tried\n"
        ),
    ),
    "outage": ("H214", ">>> Status code: 503 for https://m/repodata/repomd.xml (IP: 192.0.2.1)\n"),
    "proxy": (
        "H214",
        (
            "  - Curl error (56): Failure when receiving data from the peer for https://m/repodata/repomd.xml"
            " [Received HTTP code 407 from proxy after CONNECT]\n"
            "Error: Failed to download metadata for repo 'nv': Cannot prepare internal mirrorlist\n"
        ),
    ),
    "package that a proxy forbids": (
        "H214",
        (
            "[MIRROR] a.rpm: Status code: 403 for https://m/a.rpm (IP: 192.0.2.1)\n"
            "Error: Error downloading packages:\n  Cannot download, all mirrors were already tried without success\n"
        ),
    ),
    "package that is gone": (
        "H042",
        "[MIRROR] a.rpm: Status code: 404 for http://m/a.rpm\nError: Cannot download a.rpm: All mirrors were tried\n",
    ),
    "full": ("H046", ">>> Curl error (23): Failed writing received data to disk/application for https://m/x\n"),
    "headers": ("H211", "Error: Unable to find a match: kernel-devel-5.14.0-70.el9.x86_64\n"),
    "unknown, dnf 5": ("H049", "Failed to resolve the transaction:\nNo match for argument: nosuch\n"),
    "file conflict": (
        "H291",
        "Error: Transaction test error:\n  file /usr/x from install of a conflicts with file from package b\n",
    ),
    "settings": ("H213", 'Config error: Parsing file "/etc/yum.repos.d/x.repo" failed: IniParser: Missing section\n'),
    "database": ("H217", "error: rpmdb: BDB0113 Thread/process 4242/1 failed: BDB1507 Thread died\n"),
    "wrong key, dnf 5": (
        "H044",
        'Transaction failed: Signature verification failed.\nOpenPGP check for package "a" has failed\n',
    ),
    "login page": (
        "H228",
        (
            "Errors during downloading metadata for repository 'nv':\n"
            "Error: Failed to download metadata for repo 'nv': repomd.xml parser error: Parse error at line: 1"
            " (Opening and ending tag mismatch: meta line 1 and head)\n"
        ),
    ),
    "login page that is no XML at all": (
        "H228",
        "Error: Failed to download metadata for repo 'nv': repomd.xml parser error: (Start tag expected, '<')\n",
    ),
    "something else": ("H059", "Error: The moon is in the wrong house\n"),
    "silence": ("H059", ""),
}


@pytest.mark.parametrize(("code", "report"), REPORTS.values(), ids=REPORTS)
def test_a_failure_is_told_by_its_code_and_its_line(code, report):
    refusal = classify(report, "/log")
    assert refusal.code == code
    if code == "H211":
        assert "kernel 5.14.0-70.el9.x86_64" in refusal.cause
        return
    assert refusal.cause.partition(": ")[2].rstrip(".") in " ".join([*report.split(), "it printed nothing"])
