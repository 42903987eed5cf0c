# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options: every variable that an inventory may set, with its type, default, choices and meaning.

They are described once, in roles/*/meta/argument_specs.yml, and read from there. forms.py adds what argument specs
cannot say: the form of each text, and which texts are secret.
"""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.plugin_utils.options.known import Options, load
from ansible_collections.gpulab.node.plugins.plugin_utils.options.option import Option
from ansible_collections.gpulab.node.plugins.plugin_utils.options.values import (
    BOOLEANS,
    Values,
    boolean,
    complete,
    of_nulls,
    of_option,
)

__all__ = ["BOOLEANS", "Option", "Options", "Values", "boolean", "complete", "load", "of_nulls", "of_option"]
