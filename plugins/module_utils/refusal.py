# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every way in which gpulab says no: a stable code, one line of cause, one line of remedy.

The codes live in this file and nowhere else. A code is never given another meaning.
Families: H host and connection, I inventory and input, P plan, D driver, S long step, V proof.
"""

from __future__ import annotations

from dataclasses import dataclass

# code: (cause, remedy), both str.format templates over the values given to refuse()
CODES = {
    "H001": ("{host} is unreachable: {detail}", "Check its address, power and SSH: ssh {host}; then run again."),
}


@dataclass
class Refusal(Exception):
    """A refusal as data, and as an exception where one is raised."""

    code: str
    cause: str
    remedy: str

    def __str__(self) -> str:
        """Return the one form in which users meet a refusal."""
        return f"GPULAB-{self.code} {self.cause} Remedy: {self.remedy}"


def refuse(code: str, **values: object) -> Refusal:
    """Build the refusal with this code; the values fill its cause and remedy.

    Raises KeyError for a code that is not listed or a value that is missing.
    """
    cause, remedy = CODES[code]
    return Refusal(code, cause.format(**values).rstrip(".") + ".", remedy.format(**values))
