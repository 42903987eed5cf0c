#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep images of work by digest in a store that people read."""

from __future__ import annotations

DOCUMENTATION = r"""
module: work_images
short_description: Keep images of work by digest in a store that people read
version_added: 1.1.0
description:
  - Lets a directory hold images of containers, unpacked, each by the digest of its manifest, for programs that need
    no root, such as C(ch-run). They come from a registry or from an OCI layout on the node.
  - All images are judged before the first one comes. Each file is compared with its digest, is unpacked without root's
    rights, and then belongs to root.
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Asks the sources as well, as far as the programs for it are there.
  diff_mode:
    description: Images are not shown.
options:
  directory:
    description: Where the store is.
    type: path
    required: true
  images:
    description: What it holds.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: What people call it.
        type: str
        required: true
      source:
        description: V(docker://SERVER/IMAGE), or a directory of the node with an OCI layout.
        type: str
        required: true
      digest:
        description: The digest of its manifest, or of a list of manifests.
        type: str
        required: true
      driver:
        description: The least driver that it needs.
        type: str
      test:
        description: A program that shows that it starts.
        type: str
        default: "true"
  absent:
    description: Names of images to remove. One in which somebody runs programs is refused.
    type: list
    elements: str
    default: []
  driver:
    description: The node's driver, or its branch.
    type: str
    default: ""
  state:
    description: V(absent) removes all images.
    type: str
    choices: [present, absent]
    default: present
  timeout:
    description: Seconds in which an image has to come.
    type: int
    default: 14400
  operation:
    description: What the action plugin asks of the node. Leave it out.
    type: str
    choices: [look, judge, prepare, explain, seal, finish]
    default: look
  only:
    description: The image that the operation is for. Set by the action plugin. Leave it out.
    type: str
  printed:
    description: What a command printed. Set by the action plugin. Leave it out.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Keep an image for everybody
  gpulab.node.work_images:
    directory: /srv/images
    images:
      - name: pytorch
        source: docker://registry.lab.example/pytorch
        digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        driver: "570.26"
"""

RETURN = r"""
changes:
  description: What changed, or would change in check mode, as M(gpulab.node.preview) shows it.
  returned: success
  type: list
  elements: dict
  sample: [{action: make, what: "image pytorch (sha256:01234567)"}]
unlisted:
  description: Images that are there and were named neither to be there nor not to be. They are left alone.
  returned: success
  type: list
  elements: str
refusal:
  description: Code, cause and remedy when the task is refused.
  returned: when refused
  type: dict
"""

import os
import platform
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.gpulab.node.plugins.module_utils.containers import work_images
from ansible_collections.gpulab.node.plugins.module_utils.containers.work_images import WorkImage
from ansible_collections.gpulab.node.plugins.module_utils.containers.work_store import (
    WorkStore,
    keep,
    read_record,
    record_of,
)
from ansible_collections.gpulab.node.plugins.module_utils.core.changes import changes
from ansible_collections.gpulab.node.plugins.module_utils.core.module import Module, run
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.work_images import refuse
from ansible_collections.gpulab.node.plugins.module_utils.core.steps import unit_of

if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal

# What a run that was killed has left coming would go on in the files of the next one.
END_FORMER = ["systemctl", "stop", unit_of(work_images.step_of("*"))]
PROXIES = ("http_proxy", "https_proxy", "no_proxy")
IMAGE = {
    "name": {"type": "str", "required": True},
    "source": {"type": "str", "required": True},
    "digest": {"type": "str", "required": True},
    "driver": {"type": "str"},
    "test": {"type": "str", "default": "true"},
}


def operate(module: Module) -> dict[str, Any]:
    """Carry out the wanted operation. Raises Refusal."""
    params = module.params
    store = WorkStore(Path(params["directory"]))
    images = [WorkImage(**{**one, "driver": one["driver"] or ""}) for one in params["images"]]
    images = images if params["state"] == "present" else []
    if params["operation"] in ("look", "judge"):
        return look(module, store, images)
    if params["operation"] in ("prepare", "finish"):
        module.run_command(END_FORMER)
    if params["operation"] == "finish":
        return finish(store, images, gone(module, store))
    image = next(one for one in images if one.name == params["only"])
    if params["operation"] == "prepare":
        argv = store.prepare(image, work_images.parts(image, platform.machine()))
        return {"changed": True, "argv": argv, "environment": proxies()}
    if params["operation"] == "explain":
        return {"why": asdict(explained(store, image, params["printed"]))}
    store.seal(image)
    return {"changed": True}


def look(module: Module, store: WorkStore, images: list[WorkImage]) -> dict[str, Any]:
    """Say what is to do; nothing is changed. Raises Refusal."""
    work_images.check(images, module.params["driver"])
    store.check_place()
    leaving = gone(module, store)
    for name in leaving:
        store.check_use(name, store.names()[name])
    coming = {image.folder: image for image in images if not store.has(image)}
    check_space(store, list(coming.values()))
    linked = [image.name for image in images if image.folder not in coming and not store.leads(image)]
    there = {image.name for image in images}.union(leaving)
    return {
        "changed": bool(coming or linked or leaving or is_new(store, images)),
        "changes": changes(
            make=[f"image {one.name} ({one.digest[:15]})" for one in coming.values()],
            write=[f"image {name}" for name in linked],
            delete=[f"image {name}" for name in leaving],
        ),
        "unlisted": [name for name in store.names() if name not in there],
        "coming": [image.name for image in coming.values()],
    }


def check_space(store: WorkStore, coming: list[WorkImage]) -> None:
    """Raise Refusal K005 where the largest image does not fit; without skopeo, a registry's are not known yet."""
    has_skopeo = os.access(work_images.SKOPEO, os.X_OK)
    known = [one for one in coming if has_skopeo or not one.source.startswith(work_images.REGISTRY)]
    store.check_space(max((work_images.parts(one, platform.machine()).space for one in known), default=0))


def is_new(store: WorkStore, images: list[WorkImage]) -> bool:
    """Return whether the record of the node says something else than these images in this store."""
    kept, wanted = read_record(), record_of(store, images)
    return kept != wanted if images else bool(kept.images)


def gone(module: Module, store: WorkStore) -> list[str]:
    """Return the names of images that are to go."""
    names = store.names()
    return [name for name in names if module.params["state"] == "absent" or name in module.params["absent"]]


def finish(store: WorkStore, images: list[WorkImage], leaving: list[str]) -> dict[str, Any]:
    """Let names lead to what has come, and remove what is to go. Raises Refusal K007."""
    for image in images:
        store.link(image)
    for name in leaving:
        store.check_use(name, store.names()[name])
        store.remove(name)
    store.drop_new()
    still = store.tidy()
    keep(store, images)
    if not images and store.directory.is_dir() and not any(store.directory.iterdir()):
        store.directory.rmdir()
    return {"changed": True, "in_use": still}


def explained(store: WorkStore, image: WorkImage, printed: str) -> Refusal:
    """Return the refusal that says why an image did not come; nothing of it stays."""
    free = shutil.disk_usage(store.directory).free
    store.drop_new()
    line = (printed.strip() or "nothing was printed").splitlines()[-1]
    if "no space left" in printed.lower():
        return store.full(0, free)
    if "FAILED" in printed or "does not match" in printed.lower() or "umoci" in printed.lower():
        return refuse("K011", name=image.name, detail=line)
    return refuse("K009", name=image.name, source=image.source, detail=line)


def proxies() -> dict[str, str]:
    """Return what the session says of proxies."""
    return {name: value for name, value in os.environ.items() if name.lower() in PROXIES}


def main() -> None:
    """Parse, operate."""
    module = Module(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "images": {"type": "list", "elements": "dict", "default": [], "options": IMAGE},
            "absent": {"type": "list", "elements": "str", "default": []},
            "driver": {"type": "str", "default": ""},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "timeout": {"type": "int", "default": 14400},
            "operation": {
                "type": "str",
                "choices": ["look", "judge", "prepare", "explain", "seal", "finish"],
                "default": "look",
            },
            "only": {"type": "str"},
            "printed": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    run(module, operate)


if __name__ == "__main__":
    main()
