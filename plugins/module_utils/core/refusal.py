# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which gpulab says no: a stable code, one line of cause, one line of remedy.

The codes are in core/refusals and nowhere else, those of one subject in one file, whose refuse() knows no others. So a
module brings to the node only what it can raise. A code is never given another meaning. Its letter is that of a family:
H host and connection, I inventory and input, P plan, D driver, C CUDA, E Python environment, S long steps and runs,
V proof, R rebuild, G diagnosis, F fleet, U people, J JupyterHub, M models, B bundles,
K images of work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.shown import for_people

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Refusal(Exception):  # noqa: N818 - users know it by this name, and it is data as well
    """A refusal as data, and as an exception where one is raised."""

    code: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        """Return the one form in which users meet a refusal."""
        return f"GPULAB-{self.code} {self.cause} Remedy: {self.remedy}"


def build(codes: Mapping[str, tuple[str, str]], /, code: str, **values: object) -> Refusal:
    """Build the refusal with this code; the values fill its cause and remedy, as they may be shown to people.

    codes has cause and remedy of each code: str.format templates over the values. Raises KeyError for a code that it
    does not have, or for a value that is missing.
    """
    cause, remedy = (for_people(template.format(**values)) for template in codes[code])
    return Refusal(code, cause.rstrip(".") + ".", remedy)
