# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How modules ask Slurm's own programs on its controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.core.refusals.slurm import refuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible.module_utils.basic import AnsibleModule

SECONDS = 60  # what one command may take


def answer(  # noqa: PLR0913, PLR0917 - what a refusal says
    module: AnsibleModule,
    argv: Sequence[str],
    code: str,
    host: str,
    what: str,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return what a command prints. Raises a Refusal with this code, which says on which host and for what."""
    late = ["timeout", str(SECONDS), *argv]
    rc, output, errors = module.run_command(late, environ_update={"LC_ALL": "C", **(environment or {})})
    if rc:
        detail = (errors.strip() or output.strip() or f"exit status {rc}").splitlines()[-1].strip()
        raise refuse(code, host=host, what=what, detail=detail)
    return str(output)
