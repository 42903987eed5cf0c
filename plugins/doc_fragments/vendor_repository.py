# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of a vendor's repository, whatever the package manager. What a module says itself counts before this."""

from __future__ import annotations


class ModuleDocFragment:
    """Its names, its key and its state; module_utils/packages/vendor_key.py has them as an argument spec."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Reports what would change, changes nothing and fetches nothing.
options:
  name:
    description: Names the files.
    type: str
    required: true
  url:
    description: Where the repository is.
    type: str
  key_url:
    description: Where the armored key is fetched from, unless O(key) is given.
    type: str
  key:
    description: The armored key itself.
    type: str
  fingerprint:
    description: Whole fingerprint of the primary key, in hexadecimal.
    type: str
  state:
    description: V(absent) removes the files; V(present) needs O(url), O(fingerprint), and O(key_url) or O(key).
    type: str
    choices: [present, absent]
    default: present
"""
