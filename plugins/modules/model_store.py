#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep models and data sets in one read-only store."""

from __future__ import annotations

DOCUMENTATION = r"""
module: model_store
short_description: Keep models and data sets in one read-only store
version_added: 1.1.0
description:
  - Lets a directory hold repositories of a hub, each at one commit, as C(huggingface_hub) finds them in its cache.
    Files come from a directory of the node or from the hub, are compared with their SHA-256, and show up once all of a
    repository is there.
  - What is to change is judged before the first change. What has come stays where a run ends early, and the next one
    goes on.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Asks the sources as well, and reports what would come.
  diff_mode:
    description: Blobs are not shown.
options:
  directory:
    description: Where the store is.
    type: path
    required: true
  repositories:
    description: What it holds.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The repository, such as V(acme/tiny), or V(datasets/acme/images) for a data set.
        type: str
        required: true
      revision:
        description: The commit, 40 hexadecimal digits.
        type: str
        required: true
      files:
        description: Patterns of the files to take. Without any, all are taken.
        type: list
        elements: str
        default: []
      lock:
        description: A file on the controller with the SHA-256 of each file.
        type: path
      licence:
        description: The licence, for people.
        type: str
      group:
        description: The only group that may read it.
        type: str
      allow_code:
        description: Whether files may come that can run code when they are loaded.
        type: bool
        default: false
  absent:
    description: Repositories to remove, as V(NAME) or V(NAME@REVISION). One that a process uses is refused.
    type: list
    elements: str
    default: []
  folder:
    description: A directory of the node that has repositories.
    type: path
  hub:
    description: Address of a hub, for what the folder does not have.
    type: str
  bundle:
    description: What the bundle that the node uses has of models, as C(address) and C(models). No hub is asked then.
    type: dict
  token:
    description: What the hub gives files for. It is sent to the hub alone, and written nowhere.
    type: str
  mounts:
    description: Places at which something has to be mounted.
    type: list
    elements: path
    default: []
  state:
    description: V(absent) forgets the store, and leaves it as it is.
    type: str
    choices: [present, absent]
    default: present
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, take]
    default: look
  locks:
    description: The texts of the locks, by name and revision. Set by the action plugin. Leave it out.
    type: dict
    default: {}
  coming:
    description: What the look of before found. Set by the action plugin. Leave it out.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Keep a small model for everybody
  gpulab.node.model_store:
    directory: /srv/models
    folder: /mnt/stick
    repositories:
      - name: acme/tiny
        revision: 0123456789abcdef0123456789abcdef01234567
        files: ["*.safetensors", "*.json"]
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: "acme/tiny@01234567 (3 of 3 files to fetch, 4.1 GB)"}]
unlisted:
  description: Snapshots that are there and were named neither to be there nor not to be. They are left alone.
  returned: success
  type: list
  elements: str
locks:
  description: Where the lock of each repository is on the node.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

from pathlib import Path
from typing import Any

from ansible_collections.gpulab.node.plugins.module_utils.core import evidence, records
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.models import fill, record, wanted
from ansible_collections.gpulab.node.plugins.module_utils.models.sources import Bundle, Folder, Hub, Source
from ansible_collections.gpulab.node.plugins.module_utils.models.store import Store

SECONDS = 20.0  # that one call fetches for
REPOSITORY = {
    "name": {"type": "str", "required": True},
    "revision": {"type": "str", "required": True},
    "files": {"type": "list", "elements": "str", "default": []},
    "lock": {"type": "path"},
    "licence": {"type": "str"},
    "group": {"type": "str"},
    "allow_code": {"type": "bool", "default": False},
}


def operate(module: Module) -> dict[str, Any]:
    """Carry out the wanted operation. Raises Refusal."""
    params = module.params
    if params["state"] == "absent":
        return forget(module)
    repositories = [wanted.repository(one, params["locks"]) for one in params["repositories"]]
    wanted.check(repositories, params["absent"], params["hub"] or "", params["token"] or "")
    store = Store(Path(params["directory"]), record.read().blobs)
    store.check_place(params["mounts"])
    folders: list[Source] = [Folder(Path(params["folder"]))] if params["folder"] else []
    bundle = params["bundle"]
    others: list[Source] = [Bundle(bundle["address"], bundle["models"])] if bundle else []
    if params["hub"] and not bundle:
        others = [Hub(params["hub"], params["token"] or "")]
    sources = [*folders, *others]
    locks = [str(store.lock_path(one.folder, one.revision)) for one in repositories]
    if params["operation"] == "take":
        found = [fill.coming_of(data, repositories) for data in params["coming"]]
        line = fill.take(store, found, sources, SECONDS)
        return {"changed": True, "line": line} if line else finish(store, repositories, params["absent"])
    evidence.note(module, file=locks)
    return look(module, store, repositories, sources)


def look(module: Module, store: Store, repositories: list[wanted.Repository], sources: list[Source]) -> dict[str, Any]:
    """Say what is to do. Raises Refusal."""
    found, gone = fill.coming(store, repositories, sources), fill.going(store, module.params["absent"])
    held = [record.Held(one.name, one.revision) for one in repositories]
    kept = record.read()
    is_new = held != kept.repositories or (held and kept.directory != str(store.directory))
    result = {
        "changed": bool(found or gone or is_new),
        "changes": changes(**fill.told(found, gone)),
        "unlisted": fill.unlisted(store, repositories, gone),
        "locks": [str(store.lock_path(one.folder, one.revision)) for one in repositories],
    }
    return result if module.check_mode else {**result, "coming": [fill.plain(one) for one in found]}


def finish(store: Store, repositories: list[wanted.Repository], absent: list[str]) -> dict[str, Any]:
    """Remove what is to go, and write down what is there. Raises Refusal M006."""
    for one in fill.going(store, absent):
        store.remove(one.folder, one.revision)
    store.tidy({(one.folder, one.revision) for one in repositories})
    fill.keep(store, repositories)
    return {"changed": True, "line": None}


def forget(module: Module) -> dict[str, Any]:
    """Forget the store."""
    is_there = record.RECORD.exists()
    if not module.check_mode:
        records.remove(record.RECORD)
    return {
        "changed": is_there,
        "changes": changes(delete=[str(record.RECORD)] if is_there else []),
        "unlisted": [],
        "locks": [],
    }


def main() -> None:
    """Parse, operate."""
    module = Module(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "repositories": {"type": "list", "elements": "dict", "default": [], "options": REPOSITORY},
            "absent": {"type": "list", "elements": "str", "default": []},
            "folder": {"type": "path"},
            "hub": {"type": "str"},
            "bundle": {"type": "dict"},
            "token": {"type": "str", "no_log": True},
            "mounts": {"type": "list", "elements": "path", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "operation": {"type": "str", "choices": ["look", "take"], "default": "look"},
            "locks": {"type": "dict", "default": {}},
            "coming": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()
