"""Patterns of paths."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import Rules


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("/etc/**", ["/etc", "/etc/a", "/etc/a/b", "/etc/\n"], ["/etcetera", "/usr/etc"]),
        ("/var/log/*", ["/var/log/a"], ["/var/log", "/var/log/a/b"]),
        ("**/__pycache__/**", ["/opt/a/__pycache__", "/opt/__pycache__/x.pyc"], ["/opt/pycache"]),
        ("/etc/ssh/ssh_host_*_key", ["/etc/ssh/ssh_host_rsa_key"], ["/etc/ssh/ssh_host_rsa_key.pub"]),
        ("/boot/vmlinuz-?.[0-9]", ["/boot/vmlinuz-6.1"], ["/boot/vmlinuz-6.x", "/boot/vmlinuz-6/1"]),
        ("/a.b+c", ["/a.b+c"], ["/axb+c"]),
        ("~/.ssh/**", ["/home/li/.ssh/id", "/root/.ssh"], ["/home/wei/.ssh/id", "/home/li/x/.ssh"]),
    ],
)
def test_a_pattern_fits(pattern, fits, fits_not):
    rules = Rules([(pattern, True)], ["/home/li", "/root/"])
    assert [path for path in fits if not rules.find(path)] == []
    assert [path for path in fits_not if rules.find(path)] == []


def test_the_first_pattern_counts_whatever_it_begins_with():
    rules = Rules([("~/.netrc", 1), ("/home/**", 2), ("~/.*", 3)], ["/home/li"])
    found = [rules.find(path) for path in ("/home/li/.netrc", "/home/li/.bashrc", "/root/.netrc")]
    assert found == [1, 2, None]


def test_a_pattern_that_is_open_at_its_beginning_keeps_its_place():
    rules = Rules([("**/x", 1), ("/a/**", 2), ("/?/y", 3), ("/b*", 4)])
    assert [rules.find(path) for path in ("/a/x", "/a/y", "/c/y", "/bin/a", "/bin", "/")] == [1, 2, 3, None, 4, None]


def test_no_patterns_fit_nothing():
    assert Rules([]).find("/etc") is None


def test_what_is_known_of_a_directory_is_not_taken_for_another():
    rules = Rules([("~/x", 1), ("~/a/x", 2), ("/srv/x", 3), ("~", 4)], ["/home/li", "/home/li/a", "/srv/wei"])
    paths = ("/srv/x", "/srv/wei/x", "/srv/wei", "/home/li/a/x", "/home/li/x", "/home/li/a", "/srv/y", "/home/li/")
    assert [rules.find(path) for path in paths] == [3, 1, 4, 1, 1, 4, None, None]
