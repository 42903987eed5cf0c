"""Where sshd looks for keys, once gpulab has told it of a directory of root's."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.accounts import sshd

MAIN = "Port 22\nInclude /etc/ssh/sshd_config.d/*.conf\nUsePAM yes"


def test_a_draft_has_the_files_that_the_main_one_includes_in_their_place():
    assert sshd.draft(MAIN, ["/a", "/b"]) == "Port 22\nInclude /a\nInclude /b\nUsePAM yes"
    assert sshd.draft(MAIN, []) == "Port 22\n\nUsePAM yes"


@pytest.mark.parametrize(
    ("shown", "before"),
    [
        ("port 22\nauthorizedkeysfile .ssh/a .ssh/b\n", [".ssh/a", ".ssh/b"]),
        ("authorizedkeysfile none\n", []),
        (f"authorizedkeysfile /etc/keys/%u {sshd.OURS}\n", ["/etc/keys/%u"]),
    ],
)
def test_the_places_that_sshd_had_stay_and_ours_comes_last(shown, before):
    assert sshd.places(shown) == before
    assert sshd.content(before) == f"AuthorizedKeysFile {' '.join([*before, '/etc/ssh/gpulab-keys/%u'])}\n"


@pytest.mark.parametrize(
    ("shown", "there"),
    [
        ("authorizedkeysfile .ssh/a /etc/ssh/gpulab-keys/%u", True),
        ("authorizedkeysfile .ssh/a", False),
        ("banner /etc/ssh/gpulab-keys/%u", False),
        ("authorizedkeysfile /etc/ssh/gpulab-keys/%u.old", False),
    ],
)
def test_only_the_setting_itself_counts(shown, there):
    assert sshd.has_ours(shown) is there
