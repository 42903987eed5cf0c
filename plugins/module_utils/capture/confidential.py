# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the content of a file that everybody may read is secret all the same. No I/O happens here.

What looks like a secret and is none only takes its file into the encrypted archive. So this is rather too wide. Each
repetition has a bound: a file of a hostile user must not make the search slow.
"""

from __future__ import annotations

import re

# A name that says that its value is secret; but not passwd: of nsswitch.conf, and not new_authtok_reqd of PAM.
_NAME = (
    r"(?:password|passphrase|passwd(?!:)|storagepass|secret|token|api[_-]?key|access[_-]?key|psk|authtok(?!_reqd)|"
    r"bindpw|_auth(?=\s{0,9}=)|\bpass(?=\s{0,9}[:=]))[\w-]{0,40}"
)
_FORMS = (
    r"PRIVATE KEY-----",
    r"://[^/\s:@]{0,99}:[^/\s@]{1,999}@",  # an address with a password
    r"://[^/\s:@]{20,999}@",  # an address with a token
    _NAME + r"[\"']?\s{0,20}[:=]\s{0,20}[\"']?(?!(?:true|false|none|null|yes|no)\b|\$)[^\s\"'#;]",
    r"--(?:password|passwd|token|api-?key|secret)\s{1,9}[^\s-]",
    r"\b(?:bindpw|r[ow]community6?)\s{1,20}\S",
    r"\blogin\s{1,9}\S{1,99}\s{1,9}password\s",
    r"\b(?:bearer|basic) {1,9}[\w+/=.-]{8}",
    r"\bcurl\b[^\n]{0,500}\s(?:-u|--user)\s{0,9}[\"']?[^\s:]{1,99}:\S",
    r"\"auth\"\s{0,9}:\s{0,9}\"\w",  # Docker
    r"\b(?:gh[pousr]_|github_pat_|glpat-|hf_|nvapi-|dckr_pat_|AKIA|sk-)[\w-]{16}",
)
_SECRET = re.compile("|".join(_FORMS).encode("ascii"), re.IGNORECASE)


def holds_secret(content: bytes) -> bool:
    """Tell whether there is a key, a password or a token in a file, as far as its form shows it."""
    return _SECRET.search(content) is not None
