# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Users' Python environments from their locks: as that user, at the same path, by the same Python.

An environment is made where it was, because scripts in it hold its path. A mark beside it says that it is not finished.
Another release of the system has another Python: an environment of the system's own Python is then made by the new one,
from the same lock, and the report says so.
"""

from __future__ import annotations

import posixpath
import shlex
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.capture import environments
from ansible_collections.gpulab.node.plugins.module_utils.core.environment_packages import normalized
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import HIDDEN
from ansible_collections.gpulab.node.plugins.module_utils.environments import conda

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.capture.sections.environments import Environment
    from ansible_collections.gpulab.node.plugins.module_utils.core.node import Node

SECTION = "environments"
MARK = "gpulab-rebuild"
CONDA_TOOLS = ("micromamba", "mamba", "conda")
TOOL_PLACES = ("/opt/conda/bin", "/usr/local/bin", "/usr/bin", "/bin")
_PIP = ("install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps")
_PATH = "/usr/local/bin:/usr/bin:/bin"
_BY_VENV = ("pip", "setuptools", "wheel")
SYSTEM_PYTHON = "/usr/bin/python3"


def missing(record: Environment, why: str, package: str = "") -> dict[str, str]:
    """Return what did not come back: an environment, or a package or the Python in it."""
    return {"section": SECTION, "name": f"{record.path}{f': {package}' if package else ''}", "why": why}


def look(node: Node, record: Environment) -> tuple[bool, list[dict[str, str]]]:
    """Return whether an environment is to be made, and what will be missing of it."""
    path = record.path
    left = list(_left(node, record))
    now = environments.at(path, node.names(path), node)
    unfinished = node.exists(_mark(path))
    if now and not unfinished:
        left += differences(record, now.record)
        why = _of_python(node, record, now.record)
        return False, left + ([missing(record, why, f"Python {record.python}")] if why else [])
    why = reason(node, record)
    return (False, [missing(record, why)]) if why else (True, left)


def _of_python(node: Node, record: Environment, now: Environment) -> str:
    """Return what is to be said of the Python of an environment that is there; empty where it is the captured one."""
    if record.kind == environments.CONDA or not (now.home and now.python):
        return ""
    if not interpreter(node, now):
        return f"the environment needs it in {now.home}, which does not have it: make it again by another Python"
    same = _minor(now.python) == _minor(record.python)
    return "" if same else f"the environment was made by Python {now.python} of this system"


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _left(node: Node, record: Environment) -> Iterator[dict[str, str]]:
    for one in record.own:
        there = node.exists(one.path) if one.path.startswith("/") else False
        way = f"; install it with pip install {'-e ' if one.editable else ''}{one.path}" if there else ""
        yield missing(record, f"{one.why}: {one.path or 'unknown'}{way}", f"{one.name} {one.version}".strip())
    for line in record.lock:
        if HIDDEN in line:
            yield missing(record, "its address held a secret, which the lock does not have", _name(line))


def reason(node: Node, record: Environment) -> str:
    """Return why an environment cannot be made; empty where it can."""
    if record.kind == environments.CONDA:
        return "" if tool(node) else "the node has no micromamba; the role gpulab.node.conda installs it"
    if not (interpreter(node, record) or successor(node, record)):
        return f"its Python {record.python} of {record.home or 'an unknown place'} is not on the node"
    return ""


def interpreter(node: Node, record: Environment) -> str:
    """Return the path of the Python that an environment was made by; empty where it is not on the node."""
    version = _minor(record.python)
    path = posixpath.join(record.home, f"python{version}") if record.home and version else ""
    return path if path and node.exists(path) else ""


def successor(node: Node, record: Environment) -> str:
    """Return the system's Python where that of an earlier release made the environment; else an empty text."""
    own = record.home == posixpath.dirname(SYSTEM_PYTHON) and not interpreter(node, record)
    return SYSTEM_PYTHON if own and node.exists(SYSTEM_PYTHON) else ""


def tool(node: Node) -> str:
    """Return the path of what installs an explicit lock of conda's; empty where there is none."""
    places = (f"{place}/{name}" for name in CONDA_TOOLS for place in TOOL_PLACES)
    return next((path for path in places if node.exists(path)), "")


def script(node: Node, record: Environment, indexes: list[str]) -> str:
    """Return the shell script that makes an environment, for its user. indexes are addresses for pip beside its own."""
    path = record.path
    mark, above = shlex.quote(_mark(path)), shlex.quote(posixpath.dirname(path))
    lines = ["set -e", "cd /", f"mkdir -p {above}", f": > {mark}"]
    lines += _of_conda(node, record, indexes) if record.kind == environments.CONDA else _of_venv(node, record, indexes)
    return "\n".join([*lines, f"rm {mark}"])


def _mark(path: str) -> str:
    return posixpath.join(posixpath.dirname(path), f".{posixpath.basename(path)}.{MARK}")


def _of_venv(node: Node, record: Environment, indexes: list[str]) -> Iterator[str]:
    settings = record.settings
    options = ["--system-site-packages"] if settings.get("include-system-site-packages", "").lower() == "true" else []
    if settings.get("prompt"):
        options.append(f"--prompt={settings['prompt'].strip(chr(39))}")
    other = successor(node, record)
    yield shlex.join([interpreter(node, record) or other, "-m", "venv", *options, record.path])
    lock = [line for line in record.lock if HIDDEN not in line]
    own = {_name(line) for line in lock}
    if other:  # an old pip or setuptools does not run on a newer Python
        lock = [line for line in lock if _name(line) not in _BY_VENV]
    yield from _pip(record.path, lock, indexes)
    surplus = [name for name in _BY_VENV if name not in own]
    if surplus:
        python = posixpath.join(record.path, "bin/python")
        yield shlex.join(
            [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "uninstall", "--yes", *surplus]
        )


def _of_conda(node: Node, record: Environment, indexes: list[str]) -> Iterator[str]:
    lock = [line for line in record.lock if HIDDEN not in line]
    explicit = [line for line in lock if not line.startswith(conda.PIP_LINE)]
    by_pip = [line[len(conda.PIP_LINE) :] for line in lock if line.startswith(conda.PIP_LINE)]
    file = shlex.quote(f"{_mark(record.path)}.lock")
    yield f"cat > {file} <<'END-OF-LOCK'\n" + "\n".join(explicit) + "\nEND-OF-LOCK"
    yield shlex.join([tool(node), "create", "--yes", "--quiet", "--prefix", record.path, "--file"]) + f" {file}"
    yield f"rm {file}"
    yield from _pip(record.path, by_pip, indexes)


def _pip(path: str, lock: list[str], indexes: list[str]) -> Iterator[str]:
    """Yield the installation of a lock: the packages of an index in one go, each other one by itself."""
    if lock:
        further = [f"--extra-index-url={one}" for one in indexes]
        command = shlex.join([posixpath.join(path, "bin/python"), "-m", "pip", *_PIP, *further, "--requirement"])
        yield f"{command} /dev/stdin <<'END-OF-LOCK'\n" + "\n".join(lock) + "\nEND-OF-LOCK"


def as_user(owner: str, home: str, file: str) -> list[str]:
    """Return the command that runs the script in a user's file as that user, with nothing of root's environment."""
    environment = [f"HOME={home}", f"USER={owner}", f"LOGNAME={owner}", f"PATH={_PATH}", "LANG=C.UTF-8"]
    become = [] if owner == "root" else ["runuser", "--user", owner, "--"]
    # The user may open the file, but perhaps not enter the directories above it.
    return ["sh", "-c", 'exec "$@" 3< "$0"', file, *become, "env", "-i", *environment, "sh", "/dev/fd/3"]


def differences(record: Environment, now: Environment) -> Iterator[dict[str, str]]:
    """Yield the packages of a lock that an environment does not have, or has in another version."""
    before, after = _versions(record.lock), _versions(now.lock)
    passing = () if _minor(now.python) == _minor(record.python) else _BY_VENV
    for name, line in before.items():
        if after.get(name) != line and HIDDEN not in line and name not in passing:
            yield missing(record, f"the environment has {after.get(name, 'none of it')}", line)


def _versions(lock: list[str]) -> dict[str, str]:
    return {_name(line): line for line in lock if line != conda.EXPLICIT}


def _name(line: str) -> str:
    line = line.removeprefix(conda.PIP_LINE)
    for mark in ("==", " @ "):
        if mark in line:
            return normalized(line.split(mark, 1)[0].strip())
    return posixpath.basename(line.partition("#")[0]).rsplit("-", 2)[0]


def check_script(node: Node, record: Environment, indexes: list[str]) -> str:
    """Return the script that asks, on the old node, whether the packages of a lock can still be had; empty for conda's.

    Nothing is installed. pip reads what the index says of each, and loads a package whose index does not say enough.
    """
    python = interpreter(node, record)
    lock = [line for line in record.lock if HIDDEN not in line and _name(line) not in _BY_VENV]
    if record.kind == environments.CONDA or not lock or not python:
        return ""
    of_environment = posixpath.join(record.path, "bin/python")
    pip = [of_environment] if node.exists(posixpath.join(record.path, "bin/pip")) else [python]
    further = [f"--extra-index-url={one}" for one in indexes]
    command = shlex.join([*pip, "-m", "pip", *_PIP, "--dry-run", "--ignore-installed", *further, "--requirement"])
    return f"{command} /dev/stdin <<'END-OF-LOCK'\n" + "\n".join(lock) + "\nEND-OF-LOCK"


def addresses(record: Environment) -> list[str]:
    """Return the addresses of the files of a conda lock."""
    lines = record.lock if record.kind == environments.CONDA else []
    return [line.partition("#")[0] for line in lines if line.startswith(("https://", "http://")) and HIDDEN not in line]
