# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authors and attributes of modules. What a module says itself counts before this."""

from __future__ import annotations


class ModuleDocFragment:
    """What modules share, by what they do: change a node (and show how), write on the controller, or read."""

    DOCUMENTATION = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Reports what would change and changes nothing.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
"""

    DIFF = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Reports what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows the file before and after.
    support: full
"""

    FILES = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Reports what would change and changes nothing.
    support: full
  diff_mode:
    description: Shows each file before and after.
    support: full
"""

    CONTROLLER = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Files on the controller are written all the same. Nodes are never changed.
    support: full
  diff_mode:
    description: Nothing on a node is changed.
    support: none
"""

    READS = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: Nothing is ever changed, so check mode makes no difference.
    support: full
  diff_mode:
    description: There is no difference to show.
    support: none
"""

    FACTS = r"""
author: The gpulab founders (@gpulab)
attributes:
  check_mode:
    description: The same with and without, since nothing is changed.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
  facts:
    description: Returns C(ansible_facts).
    support: full
"""

    PLATFORM = r"""
attributes:
  platform:
    description: Where it runs.
    support: full
    platforms: linux
"""
