"""A vendor's APT repository: what its files say, its key, and who else declares it."""

import fnmatch

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.module_utils.packages import apt_sources, vendor_key
from ansible_collections.gpulab.node.plugins.module_utils.packages.apt_repository import (
    Repository,
    proxy_environment,
    proxy_question,
)
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog

from .openpgp_keys import VERSION_6, VERSION_6_FINGERPRINT

URL = "https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/"
TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable/deb/"
OTHER = "EB693B3035CD5710E231E123A4B469963BF863CC"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
KEYRINGS = {KEYRING: VERSION_6.encode(), "/etc/apt/trusted.asc": VERSION_6.encode(), "/broken.gpg": b"<html>"}


def repository(**changes):
    values = {"name": "nvidia-cuda", "url": URL, "suite": "/", "components": (), "packages": ("nvidia-*", "libcuda1")}
    return Repository(**{**values, "fingerprint": VERSION_6_FINGERPRINT, **changes})


def read(path):
    return KEYRINGS.get(path, b"")


def sources(file, text):
    return apt_sources.parse(f"/etc/apt/sources.list.d/{file}", text, "amd64")


def test_a_flat_repository_has_no_components():
    assert repository().sources() == (
        "# Written by gpulab; changes made by hand are lost.\n"
        f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By: /etc/apt/keyrings/gpulab-nvidia-cuda.asc\n"
    )
    assert "Components: stable test\n" in repository(suite="noble", components=("stable", "test")).sources()


def test_what_is_written_reads_back():
    (source,) = sources("gpulab-nvidia-cuda.sources", repository().sources())
    assert (source.uri, source.suite, source.components) == (URL, "/", ())
    assert source.signed_by == repository().key_path


def test_only_the_named_packages_come_before_the_distribution():
    assert repository().preferences("").split("\n", 1)[1] == (
        'Package: nvidia-* libcuda1\nPin: origin "developer.download.nvidia.com"\nPin-Priority: 600\n\n'
        'Package: *\nPin: origin "developer.download.nvidia.com"\nPin-Priority: 100\n'
    )
    assert "600" not in repository(packages=()).preferences("")


def test_in_a_bundle_priorities_go_by_what_it_says_of_itself():
    text = repository(release="o=NVIDIA,l=NVIDIA CUDA").preferences("")
    assert text.count("Pin: release o=NVIDIA,l=NVIDIA CUDA\n") == 2
    assert "origin" not in text


PIN_600 = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
PREFERENCES = {
    "none": ("", "*"),
    "of cuda-keyring": (PIN_600, "?*"),
    "of cuda-keyring among others": (f"Package: sl\nPin: version 1\nPin-Priority: 9\n\n\n{PIN_600}", "?*"),
    "of some packages": (PIN_600.replace("*", "cuda-*"), "*"),
    "a comment": (PIN_600.replace("Package", "# Package"), "*"),
}


@pytest.mark.parametrize(("others", "everything"), PREFERENCES.values(), ids=PREFERENCES)
def test_a_record_for_all_packages_is_overruled(others, everything):
    records = repository().preferences(others).split("\n\n")
    assert records[-1].startswith(f"Package: {everything}\n")
    assert records[-1].endswith("Pin-Priority: 100\n")


def test_a_port_is_no_part_of_the_host():
    assert 'origin "mirror.example"' in repository(url="http://mirror.example:8080/cuda/").preferences("")


def test_priorities_come_after_those_of_a_pinning_package():
    directory, _slash, name = repository().preferences_path.rpartition("/")
    assert directory == "/etc/apt/preferences.d"
    assert max("nvidia-driver-pinning", "cuda-repository-pin-600", name) == name
    assert name.endswith(".pref")  # any other extension would be passed over


def test_the_pinned_key_is_taken():
    vendor_key.check(VERSION_6, "https://example.org/key", VERSION_6_FINGERPRINT)


BAD_KEYS = {
    "another key": (
        repository(fingerprint=OTHER),
        VERSION_6,
        f"is {VERSION_6_FINGERPRINT}, but the pinned key is {OTHER}",
    ),
    "a second key with it": (repository(), VERSION_6 * 2, f"is {VERSION_6_FINGERPRINT}, {VERSION_6_FINGERPRINT}"),
    "the end of the fingerprint only": (repository(fingerprint=OTHER[-8:]), VERSION_6, "pinned key is 3BF863CC"),
    "a web page": (repository(), "<html>log in first</html>", "cannot be used: it contains no armored public key"),
}


@pytest.mark.parametrize(("wanted", "key", "why"), BAD_KEYS.values(), ids=BAD_KEYS)
def test_any_other_key_is_refused(wanted, key, why):
    with pytest.raises(Refusal) as caught:
        vendor_key.check(key, "https://example.org/key", wanted.fingerprint)
    assert caught.value.code == "H060"
    assert why in str(caught.value)
    assert "https://example.org/key" in str(caught.value)


INLINE = VERSION_6.strip().replace("\n\n", "\n.\n").replace("\n", "\n ")
ADOPTED = {
    "cuda-keyring": ("cuda-debian12-x86_64.list", f"deb [signed-by={KEYRING}] {URL} /"),
    "without the last slash": ("cuda.list", f"deb [arch=amd64 signed-by={KEYRING}] {URL[:-1]} /"),
    "deb822": ("cuda.sources", f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By: {KEYRING}\n"),
    "the key inside": ("cuda.sources", f"Types: deb\nURIs: {URL}\nSuites: /\nSigned-By:\n {INLINE}\n"),
    "a fingerprint": ("cuda.list", f"deb [signed-by={VERSION_6_FINGERPRINT.lower()}] {URL} /"),
    "one of two keyrings": ("cuda.list", f"deb [signed-by=/missing.gpg,{KEYRING}] {URL} /"),
}


@pytest.mark.parametrize(("file", "text"), ADOPTED.values(), ids=ADOPTED)
def test_who_declares_it_with_the_same_key_is_left_alone(file, text):
    assert repository().declared_elsewhere(sources(file, text), read) == f"/etc/apt/sources.list.d/{file}"


# As NVIDIA's guide declares it, and as gpulab does.
BY_ARCHITECTURE = {
    "in the address": (f"{TOOLKIT}$(ARCH)", "/", f"{TOOLKIT}amd64", "/"),
    "in the suite": (TOOLKIT, "$(ARCH)/", TOOLKIT, "amd64/"),
}


@pytest.mark.parametrize(("uri", "suite", "url", "wanted"), BY_ARCHITECTURE.values(), ids=BY_ARCHITECTURE)
def test_who_declares_it_for_every_architecture_declares_it(uri, suite, url, wanted):
    toolkit = repository(name="nvidia-container-toolkit", url=url, suite=wanted)
    adopted = sources("nvidia.list", f"deb [signed-by={KEYRING}] {uri} {suite}")
    assert toolkit.declared_elsewhere(adopted, read) == "/etc/apt/sources.list.d/nvidia.list"
    with pytest.raises(Refusal, match="H062"):
        toolkit.declared_elsewhere(sources("nvidia.list", f"deb [signed-by={OTHER}] {uri} {suite}"), read)


CONFLICTS = {
    "any key": ("cuda.list", f"deb {URL} /", "any key that the node trusts"),
    "trusted without a key": ("cuda.list", f"deb [trusted=yes] {URL} /", "any key that the node trusts"),
    "another fingerprint": ("cuda.list", f"deb [signed-by={OTHER}!] {URL} /", OTHER),
    "a keyring that is gone": ("cuda.list", f"deb [signed-by=/missing.gpg] {URL} /", "any key"),
    "a keyring that is none": ("cuda.list", f"deb [signed-by=/broken.gpg] {URL} /", "any key"),
}


@pytest.mark.parametrize(("file", "text", "found"), CONFLICTS.values(), ids=CONFLICTS)
def test_who_declares_it_with_another_key_is_refused(file, text, found):
    with pytest.raises(Refusal) as caught:
        repository().declared_elsewhere(sources(file, text), read)
    assert caught.value.code == "H062"
    assert f"/etc/apt/sources.list.d/{file} already declares {URL}" in str(caught.value)
    assert found in str(caught.value)


FREE = {
    "nothing": "",
    "another system's": f"deb [signed-by={KEYRING}] {URL.replace('debian12', 'debian11')} /",
    "another suite": f"deb {URL} stable main",
    "commented out": f"# deb {URL} /",
    "sources only": f"deb-src {URL} /",
}
SWITCHED_OFF = ("no", "No", "false", "without", "off", "disable", "0")


@pytest.mark.parametrize("text", FREE.values(), ids=FREE)
def test_what_is_not_this_repository_is_no_conflict(text):
    assert repository().declared_elsewhere(sources("cuda.list", text), read) is None


@pytest.mark.parametrize("word", SWITCHED_OFF)
def test_what_is_switched_off_is_no_conflict(word):
    text = f"Types: deb\nURIs: {URL}\nSuites: /\nEnabled: {word}\n"
    assert repository().declared_elsewhere(sources("cuda.sources", text), read) is None


DOCKER = "https://download.docker.com/linux/debian"
DISTRIBUTION = "deb http://mirror.example/debian bookworm main"


def test_a_host_that_serves_the_distribution_too_is_refused():
    """Priorities go by host: the distribution would fall to 100 with the rest."""
    declared = apt_sources.parse("/etc/apt/sources.list", DISTRIBUTION, "amd64")
    with pytest.raises(Refusal) as caught:
        repository(url="http://mirror.example:8080/cuda/").check_host(declared)
    assert caught.value.code == "H063"
    repository(url="http://cuda.mirror.example/").check_host(declared)


def test_a_host_that_serves_another_vendors_packages_is_taken():
    other = "deb https://developer.download.nvidia.com/hpc-sdk/ubuntu/amd64 /"
    repository().check_host(sources("nvhpc.list", other))


OTHER_RELEASES = {  # https://github.com/psygreg/linuxtoys/issues/451
    "of the same vendor": (URL, "/", f"deb {URL.replace('debian12', 'debian11')} /", "debian11"),
    "of another system": (
        URL,
        "/",
        f"deb [signed-by={KEYRING}] {URL.replace('debian12', 'ubuntu2404')} ./",
        "ubuntu2404",
    ),
    "another suite": (DOCKER, "bookworm", f"deb {DOCKER} trixie stable", "trixie"),
    "another suite of another system": (
        DOCKER,
        "bookworm",
        "deb https://download.docker.com/linux/ubuntu noble stable",
        "noble",
    ),
}


@pytest.mark.parametrize(("url", "suite", "text", "named"), OTHER_RELEASES.values(), ids=OTHER_RELEASES)
def test_the_vendors_packages_for_another_release_are_refused(url, suite, text, named):
    """APT takes the file that sorts first of two with the same version, and the priority by host lifts both."""
    with pytest.raises(Refusal) as caught:
        repository(url=url, suite=suite).check_host(sources("cuda-debian11-x86_64.list", text))
    assert caught.value.code == "H210"
    assert named in caught.value.cause
    assert "/etc/apt/sources.list.d/cuda-debian11-x86_64.list" in caught.value.remedy


SAME_RELEASE = {
    "the repository itself": (URL, "/", f"deb {URL} /"),
    "another product of the vendor": (
        URL,
        "/",
        "deb https://developer.download.nvidia.com/devtools/repos/ubuntu2404/amd64/ /",
    ),
    "a channel of the vendor": (TOOLKIT, "/", f"deb {TOOLKIT.replace('stable', 'experimental')} /"),
    "another mirror": (URL, "/", f"deb {URL.replace('debian12', 'debian11').replace('developer', 'other')} /"),
    "the same suite": (DOCKER, "bookworm", f"deb {DOCKER} bookworm test"),
}


@pytest.mark.parametrize(("url", "suite", "text"), SAME_RELEASE.values(), ids=SAME_RELEASE)
def test_what_a_vendor_has_beside_it_is_taken(url, suite, text):
    repository(url=url, suite=suite).check_host(sources("vendor.list", text))


def test_the_repository_itself_in_the_installers_file_is_no_distribution():
    declared = apt_sources.parse("/etc/apt/sources.list", f"deb [signed-by={KEYRING}] {URL} /", "amd64")
    repository().check_host(declared)
    assert repository().declared_elsewhere(declared, read) == "/etc/apt/sources.list"


def test_ubuntu_is_a_distribution_too():
    text = "Types: deb\nURIs: http://mirror.example/ubuntu\nSuites: noble\nComponents: main\n"
    with pytest.raises(Refusal, match="H063"):
        repository(url="http://mirror.example/cuda/").check_host(sources("ubuntu.sources", text))


def test_apt_is_asked_for_the_proxy_of_the_host_first():
    question = proxy_question("https://example.org/key")
    assert question[:2] == ["apt-config", "shell"]
    assert question[3::2] == ["Acquire::https::Proxy::example.org", "Acquire::https::Proxy", "Acquire::http::Proxy"]


PROXIES = {
    "": {},
    "PROXY='http://proxy:3128'\n": {"https_proxy": "http://proxy:3128"},
    "PROXY='http://one:1'\nPROXY='http://two:2'\n": {"https_proxy": "http://one:1"},
    "PROXY='DIRECT'\nPROXY='http://two:2'\n": {"no_proxy": "example.org"},
}


@pytest.mark.parametrize(("answer", "environment"), PROXIES.items())
def test_the_first_answer_decides(answer, environment):
    assert proxy_environment(answer, "https://example.org:443/key") == environment


NOT_NVIDIAS = ["libc6", "libcups2", "libcurl4", "linux-image-amd64", "dkms", "openssh-server", "systemd", "libnvme1"]
NVIDIAS = [
    "nvidia-kernel-open-dkms",
    "nvidia-driver-cuda",
    "libcuda1",
    "libnvidia-ml1",
    "libnccl2",
]
DEB = [record for record in catalog.load().repositories.values() if record["format"] == "deb"]


@pytest.mark.parametrize("record", DEB, ids=lambda record: record["id"])
def test_no_pattern_of_the_catalog_reaches_the_distributions_packages(record):
    patterns = record["packages"] + record.get("driver_packages", [])
    reached = [name for name in NOT_NVIDIAS for pattern in patterns if fnmatch.fnmatchcase(name, pattern)]
    assert reached == []


@pytest.mark.parametrize("name", NVIDIAS)
def test_the_catalog_names_what_the_cuda_repository_is_there_for(name):
    record = catalog.load().repositories["nvidia-cuda-debian12"]
    assert any(fnmatch.fnmatchcase(name, pattern) for pattern in record["packages"] + record["driver_packages"])
