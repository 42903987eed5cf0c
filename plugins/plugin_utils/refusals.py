# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All refusals, for the controller: on nodes a module has only those of its subjects (module_utils/core/refusals)."""

from __future__ import annotations

from functools import partial

from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import build
from ansible_collections.gpulab.node.plugins.module_utils.core.refusals import (
    bmc,
    bundle,
    capture,
    containers,
    cuda,
    diagnosis,
    driver,
    environments,
    fleet,
    gpu_settings,
    hosts,
    inventory,
    jupyter,
    models,
    node,
    packages,
    plan,
    proof,
    rebuild,
    reinstall,
    runs,
    slurm,
    storage,
    system,
    users,
    values,
    work_images,
)

LETTERS = "HIPDCESVRGFUJMBK"  # the order of the documents
SUBJECTS = (
    bmc,
    bundle,
    capture,
    containers,
    cuda,
    diagnosis,
    driver,
    environments,
    fleet,
    gpu_settings,
    hosts,
    inventory,
    jupyter,
    models,
    node,
    packages,
    plan,
    proof,
    rebuild,
    reinstall,
    runs,
    slurm,
    storage,
    system,
    users,
    values,
    work_images,
)
_ALL = {code: texts for subject in SUBJECTS for code, texts in subject.CODES.items()}
CODES = {code: _ALL[code] for code in sorted(_ALL, key=lambda code: (LETTERS.index(code[0]), code))}
refuse = partial(build, CODES)
