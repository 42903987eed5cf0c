"""A vendor's DNF repository: what its files say."""

import configparser

from ansible_collections.gpulab.node.plugins.module_utils.packages import dnf_repository
from ansible_collections.gpulab.node.plugins.module_utils.packages.dnf_repository import Repository

KEY = "610C7B14E068A878070DA4E99CD0A493D42D0685"
STREAM = "nvidia-driver:595-open"


def repository(**changes):
    values = {"name": "nvidia-cuda", "url": "https://mirror.example/rhel9/", "fingerprint": KEY, "stream": STREAM}
    return Repository(**{**values, **changes})


def declared(**changes):
    parser = configparser.ConfigParser()
    parser.read_string(repository(**changes).declaration())
    return dict(parser["gpulab-nvidia-cuda"])


def test_packages_and_metadata_have_to_be_signed_by_the_key():
    fields = declared()
    assert (fields["gpgcheck"], fields["repo_gpgcheck"]) == ("1", "1")
    assert fields["gpgkey"] == f"file://{repository().key_path}"


def test_only_a_repository_without_streams_is_not_filtered_by_them():
    assert "module_hotfixes" not in declared()
    assert declared(stream="")["module_hotfixes"] == "1"
    assert repository(stream="").stream_path is None


def test_a_stream_is_enabled_in_place_of_another_and_left_where_it_is():
    wanted = repository().stream_state("")
    assert repository().stream_path == "/etc/dnf/modules.d/nvidia-driver.module"
    assert repository().stream_state(wanted) == wanted
    assert repository().stream_state(wanted.replace("595-open", "580-dkms")) == wanted
    assert repository().stream_state(wanted.replace("enabled", "disabled")) == wanted
    by_dnf = "[nvidia-driver]\nname=nvidia-driver\nprofiles=default\nstate=enabled\nstream=595-open\n\n"
    assert repository().stream_state(by_dnf) == by_dnf


def test_rpm_knows_a_key_by_its_last_digits():
    report = "d42d0685\tgpg-pubkey-d42d0685-62589a51\n350d275d\tgpg-pubkey-350d275d-6279464b\n"
    assert dnf_repository.trusted_keys(report, KEY) == ["gpg-pubkey-d42d0685-62589a51"]
    assert dnf_repository.trusted_keys(report, "F" * 40) == []


def test_the_proxy_is_that_of_dnf():
    assert dnf_repository.proxy("[main]\nproxy=http://proxy.example:3128\n") == "http://proxy.example:3128"
    assert dnf_repository.proxy("[main]\nproxy=_none_\n") is None
    assert dnf_repository.proxy("no configuration") is None
