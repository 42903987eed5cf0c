# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node tells every NCCL program: /etc/nccl.conf and the environment of all users."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core import owned_block

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node
    from ansible_collections.gpulab.node.plugins.plugin_utils.facts.driver import NcclFile, NcclSetting

CONF, ENVIRONMENT = "/etc/nccl.conf", "/etc/environment"
PROFILES = "/etc/profile.d"
OWNER = "nccl"  # the role that keeps a block in CONF
_NAME = re.compile(r"NCCL_[A-Z0-9_]{1,60}")
_SETTING = re.compile(r"^(?:export[ \t]+)?(NCCL_[A-Z0-9_]{1,60})=(.*)$", re.MULTILINE)
TOPOLOGY, GRAPH = "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"
_GPU_CLASS = ("0x0300", "0x0302")  # of PCI: controllers of displays, with and without a screen
_PCI, _ATTRIBUTE = re.compile(r"<pci\b([^>]*)>"), re.compile(r"""\b(\w+)=["']([^"']*)["']""")
_BUS_ID = re.compile(r"([0-9a-fA-F]{1,8}):([0-9a-fA-F:.]{7})")
_GRAPH_GPU = re.compile(r"""<gpu\b[^>]*\bdev=["'](?:0x)?([0-9a-fA-F]{1,4})["']""")
_QUOTED = re.compile(r"""(["'])(.*?)\1""")


def conf_settings(text: str) -> dict[str, str]:
    """Parse /etc/nccl.conf as NCCL does (setEnvFile in src/misc/param.cc): letter by letter, and the first line counts.

    A name is all before the first =, so one that is exported or indented is no setting; a quote or a comment is part of
    the value.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and _NAME.fullmatch(name):
            found.setdefault(name, value)
    return found


def settings(text: str) -> dict[str, str]:
    """Parse lines NAME=value of a file for shells, which may export them; the last one counts.

    Indented lines depend on what a shell tests, and values with $ or ` on what it computes: they are left out.
    """
    found = {name: _value(value.strip()) for name, value in _SETTING.findall(text)}
    return {name: value for name, value in found.items() if not set("$`") & set(value)}


def _value(text: str) -> str:
    quoted = _QUOTED.match(text)
    return quoted.group(2) if quoted else re.split(r"\s|;", text, maxsplit=1)[0]


def matching(value: str, pattern: str, present: Iterable[str]) -> list[str]:
    """Return the names that a pattern of NCCL's list matches: patterns are prefixes, after = whole names."""
    exact = value.startswith("=")
    return [name for name in present if (name == pattern if exact else name.startswith(pattern))]


def patterns(value: str) -> list[str]:
    """Return the names in a list as =mlx5_0:1,mlx5_1, without their ports."""
    return [name for name in (part.partition(":")[0].strip() for part in value.lstrip("^=").split(",")) if name]


def names_port(value: str, device: str, port: int) -> bool:
    """Tell whether a list as =mlx5_0:1,mlx5_1 names a port of an adapter; one that excludes names none."""
    if value.startswith("^"):
        return False
    parts = [part.strip().partition(":") for part in value.lstrip("=").split(",")]
    return any(name and matching(value, name, [device]) and given in ("", str(port)) for name, _colon, given in parts)


def read(node: Node) -> list[NcclSetting]:
    """Return the facts ``nccl``."""
    files = [ENVIRONMENT, *(f"{PROFILES}/{name}" for name in node.names(PROFILES) if name.endswith(".sh"))]
    found = {CONF: conf_settings(node.text(CONF)), **{file: settings(node.text(file)) for file in files}}
    return [{"name": name, "value": value, "file": file} for file, own in found.items() for name, value in own.items()]


def read_files(node: Node, found: list[NcclSetting]) -> dict[str, NcclFile]:
    """Return the facts ``nccl_files``, of the files that settings name and that are there.

    By path, that is {"gpus", "devices"}: the PCI addresses of the GPUs in a file for NCCL_TOPO_FILE, and the numbers of
    those in a file for NCCL_GRAPH_FILE. See src/graph/xml.cc in https://github.com/NVIDIA/nccl.
    """
    paths = dict.fromkeys(setting["value"] for setting in found if setting["value"].startswith("/"))
    return {path: _described(node.text(path)) for path in paths if node.exists(path)}


def _described(text: str) -> NcclFile:
    cards = (dict(_ATTRIBUTE.findall(attributes)) for attributes in _PCI.findall(text))
    found = (_BUS_ID.fullmatch(card.get("busid", "")) for card in cards if card.get("class", "").startswith(_GPU_CLASS))
    gpus = {f"{int(card[1], 16):04x}:{card[2]}".lower() for card in found if card}
    return {"gpus": sorted(gpus), "devices": sorted({int(number, 16) for number in _GRAPH_GPU.findall(text)})}


def read_own(node: Node) -> dict[str, str]:
    """Return the facts ``nccl_own``: settings of /etc/nccl.conf that gpulab did not write, by name."""
    return conf_settings(owned_block.outside(node.text(CONF), OWNER))
