# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the settings of a directory can be meant."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.module_utils.accounts.ldap import server
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import first, for_people

ASKED = ("uris", "base", "groups", "bind_dn", "bind_password", "local_people")
SHOWN = 5  # people
APART = set(",\n\r")  # what parts values in sssd.conf, or ends a line of it


def problems(  # noqa: PLR0913 - the settings
    *, uris: list[str], base: str, groups: list[str], bind_dn: str, bind_password: str, local_people: list[str]
) -> list[str]:
    """Return what is wrong, for people; nothing where all is well."""
    plain = [uri for uri in uris if server(uri) is None]
    found = [f"directory_uris has {for_people(uri)}, which is not of the form ldaps://NAME" for uri in plain]
    if not base:
        found.append("directory_base is missing")
    if not groups:
        found.append("directory_groups names no group, so nobody could log in")
    if any(APART & set(group) or not group.strip() for group in groups):
        found.append("a name in directory_groups is empty, or has a comma or a line break in it")
    if bool(bind_dn) != bool(bind_password):
        found.append("directory_bind_dn and directory_bind_password belong together")
    if any({"\n", "\r"} & set(text) for text in (base, bind_dn, bind_password)):
        found.append("a value has a line break in it")
    if local_people:
        found.append(f"users_people names people, too: {first(local_people, SHOWN)}")
    return found
