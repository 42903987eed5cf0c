#!/usr/bin/python
# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: usage
short_description: Say who used the GPUs of a lab in a month
version_added: 1.1.0
description:
  - Without O(asked), returns the month and what to ask Slurm and Prometheus of it. With it, puts together what hosts
    have registered as C(__usage_slurm) and C(__usage_prometheus), and writes a page and its data. The role C(usage)
    does both.
  - Runs once, on the controller. It never connects to a host.
options:
  month:
    description: The month, as V(2026-11). Unset takes the one of yesterday.
    type: str
  time_zone:
    description: The time zone in which the month begins and ends.
    type: str
    default: UTC
  asked:
    description: What this module returned before the hosts were asked.
    type: dict
  controllers:
    description: The controllers of Slurm that were asked.
    type: list
    elements: str
    default: []
  server:
    description: The host from which Prometheus was asked. Unset means that there is none.
    type: str
  nodes:
    description: The nodes of the lab, so that one which nobody measured is named.
    type: list
    elements: str
    default: []
  people:
    description: The people of the lab, as C(users_people) has them. Who has no job of Slurm belongs to the first group.
    type: list
    elements: dict
    default: []
  names:
    description: Whether people are named. Otherwise there are only groups.
    type: bool
    default: false
  price_kwh:
    description: Price of a kWh. Unset leaves out what it costs.
    type: float
  currency:
    description: Name of the price's currency.
    type: str
    default: ""
  directory:
    description: Where the months are, on the controller. Unset takes C(reports/usage) below the working directory.
    type: path
extends_documentation_fragment: gpulab.node.attributes.controller
attributes:
  check_mode:
    description: The files on the controller are written all the same. Nodes are never changed.
seealso:
  - module: gpulab.node.history
"""

EXAMPLES = r"""
- name: Find the month
  gpulab.node.usage:
    month: 2026-11
  register: asked

- name: Write the page of a lab of which nobody was asked
  gpulab.node.usage:
    asked: "{{ asked }}"
"""

RETURN = r"""
month:
  description: The month, as name, zone, start, end and until, in seconds since 1970.
  returned: without O(asked)
  type: dict
slurm:
  description: Commands by name that a controller of Slurm answers.
  returned: without O(asked)
  type: dict
prometheus:
  description: Parameters by name for the query API of Prometheus.
  returned: without O(asked)
  type: dict
lines:
  description: The month for people, and where the page is.
  returned: with O(asked)
  type: list
  elements: str
"""
