#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

DOCUMENTATION = r"""
module: proof_metrics
short_description: Leave the result of a proof on the node, for Prometheus
version_added: 0.5.0
description:
  - Writes the metrics of a proof where node exporter reads them, as a whole and by one short command. Python does not
    start for it on the node, because every run ends with this.
  - Never fails, for what the proof found matters more, and is no change. The directory has to be there.
options:
  metrics:
    description: The file with the metrics, on the controller.
    type: path
    required: true
extends_documentation_fragment: gpulab.node.attributes
attributes:
  check_mode:
    description: Writes nothing.
"""

EXAMPLES = r"""
- name: Let Prometheus know the result
  gpulab.node.proof_metrics:
    metrics: reports/latest/node01.prom
"""

RETURN = r"""
written:
  description: Whether the node has the metrics now.
  returned: always
  type: bool
"""
