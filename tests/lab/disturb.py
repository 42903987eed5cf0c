"""Shell scripts that disturb what the receipts on a node name, as a person or a program might: made from the receipts.

Each way of it is a function of an item's kind, name and value, and returns a command; None where it does not apply.
"""

from __future__ import annotations

import shlex

# Programs for python3 -c, with the path of a file that has a block of gpulab's.
BLOCK = """import pathlib, sys
path = pathlib.Path(sys.argv[1])
text = path.read_text()
begin = text.index("# Written by gpulab")
"""
EDIT_BLOCK = (
    BLOCK
    + """first = text.index("\\n", begin) + 1
path.write_text(text[:first] + "# by hand\\n" + text[first:])
"""
)
REMOVE_BLOCK = (
    BLOCK
    + """end = text.index("\\n", text.index("# End of what gpulab wrote")) + 1
path.write_text(text[:begin] + text[end:])
"""
)


def edited(kind, name, value):
    """Change the content of files and blocks; let go of packages, units and what runs."""
    path = shlex.quote(name.partition("#")[0])
    if kind == "file" and value.startswith("file "):
        return f"echo '# by hand' >> {path}"
    if kind == "file" and value.startswith("link "):
        return f"ln -sfn /nowhere {path}"
    if kind == "block":
        return f"python3 -c {shlex.quote(EDIT_BLOCK)} {path}"
    if kind == "package" and any("on hold" in version for version in value.values()):
        return f"apt-mark unhold {' '.join(value)} >/dev/null"
    if kind == "unit" and value == "enabled":
        return f"systemctl disable --no-reload {path} 2>/dev/null"
    return f"systemctl stop {path}" if kind == "running" and value == "active" else None


def given_away(kind, name, value):
    """Change mode and owner of files and directories."""
    if kind != "file" or value.startswith("link "):
        return None
    return f"chmod 0611 {shlex.quote(name)}; chown 1:1 {shlex.quote(name)}"


def gone(kind, name, value):
    """Remove files and blocks, and mask units."""
    path = shlex.quote(name.partition("#")[0])
    if kind == "file" and not value.startswith("directory "):
        return f"rm {path}"
    if kind == "block":
        return f"python3 -c {shlex.quote(REMOVE_BLOCK)} {path}"
    if kind == "unit" and value == "enabled":
        return f"systemctl disable --no-reload {path} 2>/dev/null; systemctl mask --no-reload {path} 2>/dev/null"
    return None


WAYS = (edited, given_away, gone)


def items(receipts):
    """Return {item: value} of all receipts, which are given by role."""
    return {item: value for receipt in receipts.values() for item, value in receipt["items"].items()}


def commands(way, values):
    """Return {item: command} for each item, of these values, that a way applies to."""
    found = {}
    for item, value in sorted(values.items()):
        kind, _colon, name = item.partition(":")
        command = None if value is None or kind == "fact" else way(kind, name, value)
        if command:
            found[item] = command
    return found


def names(item, value):
    """Return what has to be named of a disturbed item: a path, a unit, or the packages that a glob stands for."""
    kind, _colon, name = item.partition(":")
    if kind == "package":
        return [package for package, version in value.items() if "hold" in version]
    return [name.partition("#")[0]]
