"""Texts that want to be more than one value, made for every option that takes text."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.plugin_utils import options

PIECES = (
    *("\n", "\r", "\t", "\0", "\x1b[2J", "\x85", "\u2028"),
    *("\nTrusted: yes", "\ninstall nvidia /bin/sh", "\r\nexport A=1"),
    *("'", '"', "\\", "`id`", "$(id)", "$HOME", "%h", "%22", ";", "#", " ", ",", "=", "&", "|", "*", "é", "√"),
    *(
        '"; DPkg::Pre-Invoke {"id"};',
        "'; id; '",
        '" "b',
        "\\\n",
        "//",
        "/*",
        "-",
        "--index-url=http://x",
        "-r /etc/shadow",
    ),
    *(
        "-r /etc/shadow",
        "../",
        "../../../srv/x",
        "/..",
        "~",
        " # a",
        " -e",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "<",
        ">",
        ":",
        "::",
        "@",
    ),
    "a" * 5000,
)


GOOD = (
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG7mLyj4 ada@laptop",
    *("admin@lab", "mail-admins.service", "2026-11-26T23:00:00Z", "2026-11-26"),
    *("a", "12.9", "580", "580.95.05", "3.12", "8g", "10.1.2.3", "/a/b", "https://a.example/b", "server:/export"),
    "Pxe",
    *("dc=lab,dc=example", "ldaps://ldap.lab.example"),
    *(
        "0" * 64,
        "0" * 40,
        "present",
        "hunter2!",
        "age1abc",
        "NCCL_DEBUG",
        "vm.swappiness",
        "a.example:443",
        "2-00:00:00",
        "2026-12-01T08:00:00",
        "2026-11",
        "CVE-2025-23266",
        "32G",
        "https://a.example:8443",
    ),
)


def places():
    """Return each option that takes text, or a mapping, with the way to it: (place, way), of which way ends in it."""
    found = []

    def walk(option, way):
        kind = (option.elements or "raw") if option.type == "list" else option.type
        if option.fields:
            for field in option.fields:
                walk(field, (*way, field))
        elif not option.choices and kind in ("str", "path", "raw", "dict"):
            found.append((".".join(one.name for one in way), way))

    for option in options.load().options.values():
        walk(option, (option,))
    return sorted(found, key=lambda one: one[0])


def good(form):
    """Return a text that has a form."""
    return next(text for text in GOOD if form.fits(text))


def texts(form):
    """Yield one text that has the form, and bad ones, each made of a piece and of that one."""
    fine = good(form)
    yield fine
    for piece in PIECES:
        yield from (piece, piece + fine, fine + piece, fine[:-1] + piece + fine[-1:])


def inventory(way, value):
    """Return the variables that give an option, or a field of one, this value."""
    for option in reversed(way):
        value = [value] if option.type == "list" and not option.fields else value
        if option.fields:
            value = {"name": "a", **value} if any(field.name == "name" for field in option.fields) else value
            value = [value] if option.type == "list" else value
        value = {option.name: value}
    return value
