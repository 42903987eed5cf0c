# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a node that gpulab watches can be watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import check, inapplicable, ok, warn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import Node, Result

EXPORTER_GUIDE = "https://prometheus.io/docs/guides/node-exporter/"
DCGM_GUIDE = "https://docs.nvidia.com/datacenter/dcgm/latest/installation/install-dcgm-exporter.html"
TEXTFILES = "https://github.com/prometheus/node_exporter#textfile-collector"
NOT_WATCHED = "gpulab does not monitor this node (monitoring_state)"
MISSED = 4  # readings that may be missing before the metrics are stale


@check("node-exporter", proves="node exporter answers on its configured address", source=EXPORTER_GUIDE)
def node_exporter(node: Node) -> Iterator[Result]:
    """Expect the answer that the node itself got."""
    listen = node.facts.optional("monitoring.exporter.listen")
    if listen is None:
        yield inapplicable(NOT_WATCHED)
    elif not node.facts["monitoring.exporter.answers"]:
        yield warn(
            f"node exporter does not answer on {listen}",
            "start_service",
            observed="no answer",
            expected=listen,
            reason="see systemctl status prometheus-node-exporter; if the address changed, rerun the role monitoring",
        )
    elif not node.facts["monitoring.exporter.serves_gpus"]:
        yield warn(
            "node exporter does not serve the GPUs' metrics", "configure", reason="its textfile collector is off"
        )
    else:
        yield ok(f"node exporter answers on {listen}", listen)


@check("dcgm-exporter", proves="DCGM's exporter serves the GPUs' metrics", source=DCGM_GUIDE)
def dcgm_exporter(node: Node) -> Iterator[Result]:
    """Expect the answer that the node itself got, where gpulab told it where to listen."""
    listen = node.facts.optional("monitoring.dcgm_exporter.listen")
    if listen is None:
        yield inapplicable("gpulab set up no DCGM exporter here (monitoring_gpus)")
    elif not node.facts.optional("monitoring.dcgm_exporter.serves_gpus"):
        observed = "no GPU" if node.facts["monitoring.dcgm_exporter.answers"] else "no answer"
        yield warn(
            f"DCGM's exporter on {listen}: {observed}",
            "start_service",
            observed=observed,
            expected=listen,
            reason="systemctl status nvidia-dcgm-exporter; /var/dcgm-exporter.log",
        )
    else:
        yield ok(f"DCGM's exporter answers on {listen}", listen)


@check("gpu-metrics", proves="the GPUs' metrics are up to date", source=TEXTFILES)
def gpu_metrics(node: Node) -> Iterator[Result]:
    """Hold the age of the collector's file against its timer's interval."""
    collector = node.facts.optional("monitoring.collector")
    if collector is None:
        yield inapplicable(NOT_WATCHED)
        return
    age, interval = collector.optional("age_seconds"), collector["interval_seconds"]
    seen = {"observed": age, "expected": interval, "unit": "s"}
    reason = "systemctl status gpulab-metrics.timer gpulab-metrics.service"
    if age is None:
        yield warn("the GPUs' metrics are missing", "start_service", reason=reason, **seen)
    elif age > MISSED * interval:
        yield warn(f"the GPUs' metrics are {age} s old", "start_service", reason=reason, **seen)
    else:
        yield ok(f"the GPUs' metrics are {age} s old", age, unit="s")
