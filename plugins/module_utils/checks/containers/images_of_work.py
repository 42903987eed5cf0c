# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that images of work start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, fail, inapplicable, ok, unknown
from ansible_collections.gpulab.node.plugins.module_utils.containers import work_images
from ansible_collections.gpulab.node.plugins.module_utils.core import processors
from ansible_collections.gpulab.node.plugins.module_utils.core.shown import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Facts, Node, Result

OCI_IMAGE = "https://github.com/opencontainers/image-spec/blob/main/descriptor.md"


@check(
    "work-images",
    proves="images of work are those of their digests, fit processor and driver, and start without a GPU",
    source=OCI_IMAGE,
)
def work_images_start(node: Node) -> Iterator[Result]:
    """Judge the images that this reading of the node has started."""
    store = node.facts.optional("work_images")
    if store is None:
        yield inapplicable("none is listed")
        return
    if not store["answers"]:
        yield unknown(f"the images in {store['directory']} did not answer in time")
        return
    faults = [fault for image in store["images"] for fault in _faults_of(node, image)]
    yield from faults
    if not faults:
        yield ok(f"{counted(len(store['images']), 'image')} in {store['directory']}, started without a GPU")


def _faults_of(node: Node, image: Facts) -> Iterator[Result]:
    """Yield what is wrong with an image."""
    name, driver = image["name"], node.facts.optional("nvml.driver_version")
    machine = node.facts.get("system.architecture")
    wanted = processors.OF_IMAGES.get(machine, machine)
    if image["problem"]:
        summary = f"the image {name} is not there or does not start (GPULAB-K012)"
        yield fail(summary, "refill_images", observed=image["problem"], reason=image["problem"])
    elif image["architecture"] != wanted:
        summary = f"the image {name} is for another processor (GPULAB-K002)"
        yield fail(summary, "refill_images", observed=image["architecture"], expected=wanted)
    if driver and image["driver"] and not work_images.reaches(driver, image["driver"]):
        summary = f"the image {name} needs a newer driver (GPULAB-K003)"
        yield fail(summary, "upgrade_driver", observed=driver, expected=f"{image['driver']} or later")
