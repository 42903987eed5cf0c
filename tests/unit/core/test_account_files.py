"""The lines of passwd, group, shadow and subuid: one that is not whole counts nowhere."""

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import account_files
from ansible_collections.gpulab.node.plugins.module_utils.core.account_files import Group, Range, Secret, User

ROOT = User("root", "x", 0, 0, "root", "/root", "/bin/bash")
TEXT = {
    "passwd": "root:x:0:0:root:/root:/bin/bash",
    "group": "wheel:x:10:wei,li",
    "shadow": "wei:$y$hash:19000:0:99999:7::20000:",
    "ranges": "wei:100000:65536",
}
PARSERS = {
    "passwd": account_files.users,
    "group": account_files.groups,
    "shadow": account_files.secrets,
    "ranges": account_files.ranges,
}


@pytest.mark.parametrize(
    ("file", "line", "found"),
    [
        ("passwd", TEXT["passwd"], [ROOT]),
        ("passwd", "李:x:1001:1001:Lǐ Wěi,a\u2028b,,:/home/李 x:", [
            User("李", "x", 1001, 1001, "Lǐ Wěi,a\u2028b,,", "/home/李 x", "")
        ]),
        ("group", TEXT["group"], [Group("wheel", "x", 10, ("wei", "li"))]),
        ("group", "docker:!:999:", [Group("docker", "!", 999, ())]),
        ("group", "lab::1500: wei,,li ,", [Group("lab", "", 1500, ("wei", "li"))]),
        ("shadow", TEXT["shadow"], {"wei": Secret("$y$hash", 20000)}),
        ("shadow", "wei:!:::::::", {"wei": Secret("!", None)}),
        ("shadow", "wei::19000:0:99999:7::never:", {"wei": Secret("", None)}),
        ("ranges", TEXT["ranges"], [Range("wei", 100000, 65536)]),
        ("ranges", "1001:0:1", [Range("1001", 0, 1)]),
    ],
)  # fmt: skip
def test_a_line(file, line, found):
    assert PARSERS[file](f"\n{line}\n") == found


@pytest.mark.parametrize(
    ("file", "line"),
    [
        *((file, "") for file in PARSERS),
        *((file, f"#{text}") for file, text in TEXT.items()),
        *((file, f"+{text}") for file, text in TEXT.items()),
        *((file, f"-{text}") for file, text in TEXT.items()),
        *((file, f"{text}:more") for file, text in TEXT.items()),
        *((file, text.rpartition(":")[0]) for file, text in TEXT.items()),
        *((file, text[text.index(":") :]) for file, text in TEXT.items()),
        ("passwd", "odd:x:a:1::/:"),
        ("passwd", "odd:x:1:a::/:"),
        ("passwd", "odd:x:²:1::/:"),
        ("passwd", f"long:x:{'9' * 500}:1::/:"),
        ("group", "odd:x::wei"),
        ("ranges", "wei:100000:-1"),
    ],
)
def test_what_is_no_whole_line_is_passed_over(file, line):
    assert PARSERS[file](f"{line}\n{TEXT[file]}\n") == PARSERS[file](TEXT[file])


def test_of_two_lines_of_one_user_the_first_counts_as_in_glibc():
    assert account_files.secrets(f"{TEXT['shadow']}\nwei:!:::::::\n")["wei"].hash == "$y$hash"
