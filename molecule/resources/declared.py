"""What the roles declare that they leave on a node, as tests hold receipts, removals and the roles themselves to it."""

import re

from ansible_collections.gpulab.node.plugins.module_utils.capture import leaves
from ansible_collections.gpulab.node.plugins.module_utils.capture.rules import expression
from ansible_collections.gpulab.node.plugins.plugin_utils.roles.leaves import load

PLACES = {"environments": "/opt/venvs", "conda": "/opt/conda"}
# Lists all that roles write to, directories with a slash at the end.
LIST = r"find /boot /etc /opt /usr /var/lib -xdev \( -type d -printf '%p/\n' \) -o -printf '%p\n'"


def of_role(role):
    """Return what a role declares."""
    return [one for one in load() if one["role"] == role]


def plain(path):
    """Return a declared pattern in which defaults and any name stand for settings and items of receipts."""
    path = re.sub(r"^\{file:([^}]*)\}", r"\1", path)
    path = re.sub(r"\{(environments|conda)_directory\}", lambda found: PLACES[found[1]], path)
    path = re.sub(r"^\{environment\}", "/opt/**", path)
    return re.sub(r"\{\w+\}", "/{given}", path)


def declares(path, *roles):
    """Tell whether one of the roles, or what all roles share, declares a path."""
    patterns = [one for role in (*roles, "plan") for leaf in of_role(role) for one in leaf["paths"]]
    return any(_fits(pattern, name) for pattern in patterns for name in (path, f"{path}/"))


def undeclared(receipts):
    """Return the files that receipts, by role, name without a declaration of the role's."""
    items = [(role, *item.partition(":")[::2]) for role, receipt in receipts.items() for item in receipt["items"]]
    named = [(role, name.partition("#")[0]) for role, kind, name in items if kind in ("block", "environment", "file")]
    return [f"{role}: {path}" for role, path in named if not declares(path, role)]


def taken(role):
    """Return the declared patterns that a removal of the role leaves nothing of."""
    gone = [one for one in of_role(role) if one["fate"] in (leaves.COMES_BACK, leaves.CACHE) and "stays" not in one]
    return [path for one in gone for path in one["paths"]]


def left_of(roles, listed):
    """Return the paths that the removal of roles should have taken; listed is what LIST printed."""
    patterns = re.compile("|".join(f"(?:{expression(plain(path))})" for role in roles for path in taken(role)))
    return [path for path in listed.splitlines() if patterns.fullmatch(path)]


def _fits(pattern, path):
    return re.fullmatch(expression(plain(pattern)), path, re.DOTALL) is not None
