#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Report what the proof found on all hosts of the play
version_added: 0.1.0
description:
  - Writes C(report.html) (one file, needs no network), C(report.json), C(summary.json), C(junit.xml) and for each host
    C(HOST.prom) for the Prometheus node exporter's textfile collector. The role C(verify) copies it to a host that the
    role C(monitoring) watches.
  - What the run changed and how long it took is known where the callback C(gpulab.node.report) is enabled.
  - Takes each host's C(gpulab) facts, the result of M(gpulab.node.verify) registered as C(gpulab_verify), and those of
    the tasks before it as C(playbooks/verify.yml) registers them, that of M(gpulab.node.gpu_facts) as
    C(gpulab_reading). A host without results is named with what is known.
  - Runs once, on the controller. It never connects to a node.
options:
  directory:
    description: Where to write. Unset writes to C(reports/TIME) below the working directory, to which C(reports/latest)
      then points; C(reports/index.html) lists what is there.
    type: path
  kept:
    description: How many reports to keep below C(reports). Older ones are removed; one in whose directory there is
      anything else stays. Unset keeps all.
    type: int
  history:
    description: Directory of the history, a file of JSON lines for each host, to which the report adds one. The report
      compares with what is there. Unset takes C(reports/history), and none where O(directory) is set.
    type: path
  baseline:
    description: A C(report.json) of an earlier run to compare with, in place of the last proofs of the same hosts.
    type: path
extends_documentation_fragment: [gpulab.node.attributes.controller, gpulab.node.trends]
attributes:
  check_mode:
    description: The report is written all the same, on the controller. Nodes are never changed.
seealso:
  - module: gpulab.node.verify
"""

EXAMPLES = r"""
- name: Report on all hosts of the play
  gpulab.node.report:
    baseline: reports/2026-11-01T120000Z/report.json
  register: report

- name: Show a line for each host
  ansible.builtin.debug:
    msg: "{{ report.msg }}"
  run_once: true
"""

RETURN = r"""
directory:
  description: Where the report is.
  returned: success
  type: str
  sample: reports/2026-11-21T093000Z
verdict:
  description: The gravest severity on any host.
  returned: success
  type: str
counts:
  description: How many results there are of each severity, on all hosts.
  returned: success
  type: dict
metrics:
  description: The C(HOST.prom) of each host, by its name.
  returned: success
  type: dict
"""
