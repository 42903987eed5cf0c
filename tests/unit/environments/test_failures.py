"""What pip and uv say when an index is out of reach, or has nothing of use: run here for real, and recorded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda, venv

from . import wheels

pytestmark = pytest.mark.slow

SAID = Path(__file__).parent / "said"  # by other releases than those that run here


@pytest.mark.parametrize(
    ("file", "code", "cause", "remedy"),
    [
        ("pip-22.2-certificate.txt", "E002", "CERTIFICATE_VERIFY_FAILED", "base_ca_certificates"),
        ("pip-26.3-name.txt", "E002", "Failed to resolve", "DNS"),
        ("pip-26.3-address.txt", "E002", "self-signed", "base_ca_certificates"),
        ("pip-24.0-again.txt", "E004", "conflicting dependencies", "Change its packages"),
        ("pip-23.2-no-wheel.txt", "E005", "flash-attn==2.7.4.post1", "a wheel"),
        ("pip-24.0-no-git.txt", "E033", "Cannot find command 'git'", "git is one of"),
        ("pip-23.2-clone.txt", "E033", "https://mirror.example/x.git", "address and commit"),
        ("pip-23.2-source.txt", "E032", "egg_info", "a compiler"),
        ("pip-24.0-full.txt", "E011", "/opt/a/RECORD", "Free space"),
        ("pip-quota.txt", "E011", "quota", "Free space"),
        ("uv-0.13-full.txt", "E011", "CACHEDIR.TAG", "Free space"),
    ],
)
def test_each_cause_has_its_own_words(file, code, cause, remedy):
    printed = (SAID / file).read_text()
    for refusal in (venv.classify(printed, "lab", "/log"), conda.classify('{"success": true}', printed, "lab", "/log")):
        assert (refusal.code, cause in refusal.cause, remedy in refusal.remedy) == (code, True, True), refusal


@pytest.mark.parametrize(
    ("file", "code", "remedy"),
    [
        ("micromamba-missing.json", "E031", "add the channel"),
        ("micromamba-certificate.json", "E012", "base_ca_certificates"),
        ("micromamba-proxy.json", "E012", "base_https_proxy"),
    ],
)
def test_each_cause_of_a_channel_has_its_own_words(file, code, remedy):
    refusal = conda.classify((SAID / file).read_text(), "", "lab", "/log")
    assert (refusal.code, remedy in refusal.remedy) == (code, True), refusal


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """Return the directory of an index."""
    directory = tmp_path_factory.mktemp("index")
    wheels.wheel(directory, "alpha", "1.0")
    wheels.source(directory, "sourced", "1.0")
    wheels.wheel(directory, "needy", "1.0", requires=["sourced"])
    return directory


@pytest.fixture(scope="module")
def untrusted(index, tmp_path_factory):
    """Serve the index with a certificate that nobody trusts."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(file), "-out", str(file.with_suffix(".crt"))]
    subprocess.run(command, check=True, capture_output=True)
    file.write_text(file.read_text() + file.with_suffix(".crt").read_text())
    return wheels.serve(index, file).url


@pytest.fixture(params=["pip", "uv"])
def refused(request, tmp_path):
    """Return a function that has pip or uv look for a package, and returns the refusal."""

    def call(index, package="alpha", **proxies):
        (tmp_path / "wanted").write_text(f"{package}\n")
        argv = [sys.executable, "-m", "pip", "--no-input", "--disable-pip-version-check", "install", "--quiet"]
        argv += ["--only-binary=:all:", "--target", str(tmp_path / "t"), "--requirement", str(tmp_path / "wanted")]
        settings = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index, "PIP_RETRIES": "1"}
        if request.param == "uv":
            uv = pytest.importorskip("uv").find_uv_bin()
            argv = [uv, "pip", "compile", "--quiet", "--only-binary", ":all:", str(tmp_path / "wanted")]
            settings = {"UV_DEFAULT_INDEX": index, "UV_HTTP_RETRIES": "0", "UV_NO_CACHE": "1", "UV_NO_CONFIG": "1"}
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", **settings, **proxies}
        done = subprocess.run(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode != 0
        return venv.classify(done.stdout, "lab", "/log")

    return call


def test_a_certificate_that_is_not_trusted_is_named(refused, untrusted):
    refusal = refused(untrusted)
    assert (refusal.code, "base_ca_certificates" in refusal.remedy) == ("E002", True), refusal


def test_a_name_that_is_not_known_is_named(refused):
    refusal = refused("https://no-such-host.invalid/simple")
    assert (refusal.code, "DNS" in refusal.remedy) == ("E002", True), refusal


@pytest.mark.parametrize(("status", "remedy"), [(407, "a user and a password"), (403, "have the proxy allow")])
def test_a_proxy_that_lets_nothing_through_is_named(refused, status, remedy):
    refusal = refused("https://mirror.example/simple", https_proxy=wheels.answer(status).url)
    assert (refusal.code, remedy in refusal.remedy) == ("E002", True), refusal


def test_what_is_no_index_is_named(refused):
    refusal = refused(wheels.answer(200, "text/plain").url)
    assert (refusal.code, "login page" in refusal.remedy) == ("E002", True), refusal
    refusal = refused(wheels.answer(200).url)  # a page without packages, which neither tells from an empty index
    assert (refusal.code, "login page" in refusal.remedy) == ("E005", True), refusal


@pytest.mark.parametrize("answers", [(401, "text/html"), (200, "text/plain")])
def test_no_password_of_an_address_is_told(refused, answers):
    index = wheels.answer(*answers).url.replace("://", "://me:canary@")
    assert "canary" not in str(refused(index))


def test_no_password_is_told_of_what_micromamba_said():
    told = '{"success": false, "message": "Download error [https://me:canary@mirror.example/noarch/repodata.json.zst]"}'
    assert "canary" not in str(conda.classify(told, "", "lab", "/log"))


@pytest.mark.parametrize("package", ["sourced", "needy", "nowhere"])
def test_what_has_no_wheel_is_named(refused, index, package):
    refusal = refused(wheels.serve(index).url, package)
    assert (refusal.code, "wheel" in refusal.remedy) == ("E005", True), refusal
