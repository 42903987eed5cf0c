"""Why apt-get failed: a table of what it printed in each case, on Debian 12 and 13."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_failure import (
    DkmsFailure,
    classify,
    dkms_failure,
)

ANSWERS = (
    "401  Unauthorized [IP: 192.0.2.1 80]",
    "403  Forbidden [IP: 192.0.2.1 80]",
    "407  Proxy Authentication Required [IP: 192.0.2.1 80]",
    "429  Too Many Requests [IP: 192.0.2.1 80]",
    "503  Service Unavailable [IP: 192.0.2.1 80]",
)
PORTAL = "Clearsigned file isn't valid, got 'NOSPLIT' (does the network require authentication?)"
CONNECT = "Invalid response from proxy: HTTP/1.0 403 Forbidden  Server: squid     [IP: 192.0.2.1 3128]"
SETTINGS = (
    "E: Type '<!doctype' is not known on line 1 in source list /etc/apt/sources.list.d/nvidia.list",
    "E: Malformed entry 1 in list file /etc/apt/sources.list.d/a.list (Suite)",
    "E: Malformed entry 1 in sources file /etc/apt/sources.list.d/a.sources (Suite)",
    "E: Malformed stanza 1 in source list /etc/apt/sources.list.d/a.sources (type)",
    "E: Conflicting values set for option Signed-By regarding source http://x.example/ jammy: /a.gpg != /b.gpg",
    "E: No priority (or zero) specified for pin",
    "E: Invalid record in the preferences file /etc/apt/preferences.d/a.pref, no Package header",
    "E: Syntax error /etc/apt/apt.conf.d/99proxy:2: Extra junk at end of file",
    "E: The method driver /usr/lib/apt/methods/foo could not be found.",
)


def answered(source, words, summary="is not signed"):
    """Return what apt prints where a server or proxy gives something else than was asked for."""
    address = source.partition(" ")[0]
    last = f"E: The repository '{source}' {summary}.\n" if summary else "E: Some index files failed to download.\n"
    return f"Err:1 {source}\n  {words}\nE: Failed to fetch {address}/dists/jammy/InRelease  {words}\n{last}"


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
        "H292",
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
    # apt 2.6.1 against a local server, 2026-11-25
    *(("H214", answered("http://m.example/u jammy InRelease", words), " ".join(words.split())) for words in ANSWERS),
    ("H228", answered("http://m.example/u jammy InRelease", PORTAL), "http://m.example/u/dists/jammy/InRelease"),
    ("H228", answered("http://m.example/u jammy InRelease", PORTAL, "is no longer signed"), "NOSPLIT"),
    ("H214", answered("https://m.example/u jammy InRelease", CONNECT, ""), "Invalid response from proxy: HTTP/1.0 403"),
    (
        "H214",
        (
            "Err:2 http://m.example/u jammy Release\n  Redirection loop encountered\n"
            "E: The repository 'http://m.example/u jammy Release' does not have a Release file.\n"
        ),
        "http://m.example/u jammy Release: Redirection loop",
    ),
    (
        "H214",
        "E: Failed to fetch https://m.example/x.deb  Received HTTP code 403 from proxy after CONNECT\n",
        "from proxy after CONNECT",
    ),
    # apt 2.6.1 and 3.0.4 behind a proxy that makes certificates of its own
    (
        "H041",
        (
            "Err:2 https://m.example/u jammy Release\n"
            "  Certificate verification failed: The certificate is NOT trusted..\n"
            "E: The repository 'https://m.example/u jammy Release' does not have a Release file.\n"
        ),
        "https://m.example/u jammy Release: Certificate verification failed: The certificate is NOT trusted",
    ),
    (
        "H041",
        answered(
            "https://m.example/u jammy InRelease",
            "SSL connection failed: error:0A000086: certificate verify failed",
            "",
        ),
        "certificate verify failed",
    ),
    *(
        ("H213", f"Reading package lists...\n{report}\nE: The list of sources could not be read.\n", report)
        for report in SETTINGS
    ),
    (
        "H213",
        (
            "Err:2 http://x.example jammy Release\n  Unsupported proxy configured: proxy.example://3128\n"
            "E: The repository 'http://x.example jammy Release' does not have a Release file.\n"
        ),
        "proxy.example://3128",
    ),
    (
        "H212",
        (
            "W: GPG error: http://m.example jammy InRelease: Splitting up /var/lib/apt/lists/partial/m into data and"
            " signature failed\nE: The repository 'http://m.example jammy InRelease' is not signed.\n"
        ),
        "Splitting up /var/lib/apt/lists/partial/m",
    ),
    (
        "H291",
        (
            "dpkg: error processing archive /var/cache/apt/archives/nvidia-fw-server_1_amd64.deb (--unpack):\n"
            " trying to overwrite '/lib/firmware/gsp.bin', which is also in package nvidia-firmware-535 535.86.10\n"
            "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"
        ),
        "nvidia-fw-server_1_amd64.deb (--unpack): trying to overwrite '/lib/firmware/gsp.bin', which is also in",
    ),
    (
        "H215",
        (
            "You might want to run 'apt --fix-broken install' to correct these.\n"
            "The following packages have unmet dependencies:\n a : Depends: b (>= 2) but 1 is to be installed\n"
            "E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).\n"
        ),
        "a : Depends: b (>= 2) but 1 is to be installed",
    ),
    ("H211", "E: Unable to locate package linux-headers-6.1.0-18-cloud-amd64\n", "of kernel 6.1.0-18-cloud-amd64"),
    ("H049", "E: Unable to locate package linux-headers-cloud-amd64\n", "linux-headers-cloud-amd64"),
    (
        "H043",
        "dpkg-deb: error: '/var/cache/apt/archives/x.deb' is not a Debian format archive\n",
        "x.deb' is not a Debian format archive",
    ),
    (
        "H216",
        "E: List directory /var/lib/apt/lists/partial is missing. - Acquire (30: Read-only file system)\n",
        "Read-only",
    ),
    ("H217", "E: The package lists or status file could not be parsed or opened.\n", "status file could not be parsed"),
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


SIGNATURES = {
    "missing": (
        "couldn't be verified because the public key is not available: NO_PUBKEY A4B469963BF863CC",
        "A4B4",
        "Install",
    ),
    "expired": ("were invalid: EXPKEYSIG 5749CAD8646D9185 Somebody <a@example.com>", "EXPKEYSIG", "expired"),
    "revoked": ("were invalid: REVKEYSIG 5749CAD8646D9185 Somebody <a@example.com>", "REVKEYSIG", "revoked"),
}


@pytest.mark.parametrize(("said", "named", "advised"), SIGNATURES.values(), ids=SIGNATURES)
def test_gpgs_own_line_is_shown_and_its_remedy_is_about_it(said, named, advised):
    report = f"W: GPG error: http://m.example  InRelease: The following signatures {said}\n"
    refusal = classify(f"{report}E: The repository 'http://m.example  InRelease' is not signed.\n", "/log")
    assert refusal.code == "H044"
    assert named in refusal.cause
    assert advised in refusal.remedy


def test_a_signature_that_does_not_fit_is_no_missing_key():
    said = "The following signatures were invalid: BADSIG F60F4B3D7FA2AF80 cudatools <cudatools@nvidia.com>"
    report = f"W: GPG error: http://m.example  InRelease: {said}\nE: The repository 'http://m.example' is not signed.\n"
    refusal = classify(report, "/log")
    assert refusal.code == "H229"
    assert "BADSIG" in refusal.cause


EXPIRED = "E: Release file for http://m.example/dists/x/InRelease is expired (invalid since 60min 0s). Updates for\n"
EARLY = "E: Release file for http://m.example/dists/x/InRelease is not valid yet (invalid for another 1h 59min 50s).\n"


@pytest.mark.parametrize(("report", "advised"), [(EXPIRED, "use another one"), (EARLY, "clock is behind")])
def test_what_is_not_valid_now_has_the_remedy_of_its_cause(report, advised):
    refusal = classify(report, "/log")
    assert refusal.code == "H045"
    assert advised in refusal.remedy


def test_a_mirror_that_is_being_updated_is_no_damaged_download():
    words = "File has unexpected size (11 != 185). Mirror sync in progress? [IP: 192.0.2.1 80]"
    refusal = classify(answered("http://m.example/u jammy/main amd64 Packages", words, None), "/log")
    assert refusal.code == "H230"


def test_apt_3_names_the_missing_key_in_other_words():
    report = (
        "Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing key EB693B3035CD5710, which"
    )
    refusal = classify(f"W: OpenPGP signature verification failed: http://m.example InRelease: {report}\n", "/log")
    assert (refusal.code, "EB693B3035CD5710" in refusal.cause) == ("H044", True)


@pytest.mark.parametrize("words", [*ANSWERS, PORTAL])
def test_what_a_server_or_proxy_answers_is_no_missing_key(words):
    assert "key" not in classify(answered("http://m.example/u jammy InRelease", words), "/log").remedy


def test_a_script_that_failed_is_shown_with_its_last_words():
    report = "p-bad is unhappy\ndpkg: error processing package p-bad (--configure):\n installed p-bad package"
    refusal = classify(f"{report} post-installation script subprocess returned error exit status 7\n", "/log")
    assert "(p-bad is unhappy)" in refusal.cause


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
    assert dkms_failure(DKMS.replace("nvidia-current-open", "evdi") + DKMS) == failure  # the driver's comes first
