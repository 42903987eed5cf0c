# Copyright (c) 2026 The gpulab founders
# GNU General Public License v3.0+ (see https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof's document for machines: JUnit and Prometheus; and for the terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from ansible_collections.gpulab.node.plugins.module_utils.checks.model import SEVERITIES
from ansible_collections.gpulab.node.plugins.module_utils.checks.remedies import REMEDIES
from ansible_collections.gpulab.node.plugins.plugin_utils.history.told import worse
from ansible_collections.gpulab.node.plugins.plugin_utils.report.document import findings

# XML 1.0 has no way to write these, not even escaped.
if TYPE_CHECKING:
    from ansible_collections.gpulab.node.plugins.module_utils.checks.model import ResultRecord
    from ansible_collections.gpulab.node.plugins.plugin_utils.report.model import Report, ReportedHost

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(document: Report) -> str:
    """Return JUnit XML: a test suite for each host, a test case for each result; only fail is a failure."""
    root = ET.Element("testsuites", name="gpulab")
    for host in document["hosts"]:
        suite = ET.SubElement(root, "testsuite", name=_xml(host["name"]), timestamp=document["created"])
        if host["simulated"]:
            properties = ET.SubElement(suite, "properties")
            ET.SubElement(properties, "property", name="simulated", value=_xml(host["simulated"]))
        if host["state"] != "verified":
            case = ET.SubElement(suite, "testcase", name=host["state"], classname=_xml(host["name"]))
            ET.SubElement(case, "error", message=_xml(host["detail"]))
        for result in host["results"]:
            _case(suite, host["name"], result)
        suite.set("tests", str(len(suite.findall("testcase"))))
        suite.set("failures", str(len(suite.findall("testcase/failure"))))
        suite.set("errors", str(len(suite.findall("testcase/error"))))
        suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ET.Element, host: str, result: ResultRecord) -> None:
    gpu = f" [{result['gpu']['bus_id']}]" if result["gpu"] else ""
    case = ET.SubElement(suite, "testcase", name=_xml(result["id"] + gpu), classname=_xml(host))
    text = _xml("; ".join(filter(None, (result["summary"], result["reason"], REMEDIES[result["remediation"]]))))
    if result["severity"] == "fail":
        ET.SubElement(case, "failure", message=_xml(result["summary"]), type=result["remediation"]).text = text
    elif result["severity"] in ("skipped", "unknown"):
        ET.SubElement(case, "skipped", message=_xml(result["reason"]))
    elif result["severity"] in ("warn", "info"):
        ET.SubElement(case, "system-out").text = f"{result['severity']}: {text}"


def _xml(value: str | None) -> str:
    return NOT_XML.sub("�", str(value or ""))


def prometheus(host: ReportedHost, created: float) -> str:
    """Return one host's results for node_exporter's textfile collector. created is in seconds since 1970.

    A check's value is the rank of its worst result in the order of SEVERITIES. It has no time of a proof where the host
    could not be judged.
    """
    lines = [
        "# HELP gpulab_check_severity Worst result of the check: "
        + ", ".join(f"{rank} {name}" for rank, name in enumerate(SEVERITIES))
        + ".",
        "# TYPE gpulab_check_severity gauge",
    ]
    ranks: dict[tuple[str, str, str], int] = {}
    for result in host["results"]:
        gpu = result["gpu"]
        key = (result["id"], (gpu and gpu["uuid"]) or "", (gpu and gpu["bus_id"]) or "")
        ranks[key] = max(ranks.get(key, 0), SEVERITIES.index(result["severity"]))
    lines += [
        f'gpulab_check_severity{{check="{_label(check)}",uuid="{_label(uuid)}",bus_id="{_label(bus_id)}"}} {rank}'
        for (check, uuid, bus_id), rank in sorted(ranks.items())
    ]
    lines += ["# HELP gpulab_results Results by severity.", "# TYPE gpulab_results gauge"]
    lines += [f'gpulab_results{{severity="{name}"}} {number}' for name, number in host["counts"].items()]
    lines += [
        "# HELP gpulab_host_severity Verdict on the node, in the order of gpulab_check_severity.",
        "# TYPE gpulab_host_severity gauge",
        f'gpulab_host_severity{{state="{host["state"]}"}} {SEVERITIES.index(host["verdict"])}',
        "# HELP gpulab_simulated Whether the GPUs are simulated: nothing about them was measured on a GPU.",
        "# TYPE gpulab_simulated gauge",
        f"gpulab_simulated {int(bool(host['simulated']))}",
    ]
    if host["state"] == "verified":
        lines += [
            "# HELP gpulab_verified_timestamp_seconds When the node was verified.",
            "# TYPE gpulab_verified_timestamp_seconds gauge",
            f"gpulab_verified_timestamp_seconds {created:.0f}",
        ]
    return "\n".join(lines) + "\n"


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def terminal(document: Report) -> list[str]:
    """Return a line for each host, and below it one for each finding of warn and above with its remedy."""
    width = max((len(host["name"]) for host in document["hosts"]), default=0)
    lines = []
    for host in document["hosts"]:
        simulated = "  SIMULATED" if host["simulated"] else ""
        lines.append(f"{host['name']:<{width}}  {_verdict(host):<11}  {_tally(host)}{simulated}")
        for found in findings(host["results"]):
            if found["severity"] in ("fail", "warn"):
                gpus = f" [GPU {', '.join(str(gpu['index']) for gpu in found['gpus'])}]" if found["gpus"] else ""
                remedy = f"{found['severity']:<4} {found['id']}{gpus}: {found['summary']} -> {found['remediation']}"
                lines.append(f"{'':<{width}}  {remedy}")
    return lines + _news(document)


def _news(document: Report) -> list[str]:
    """Return what changed since the last proof of these hosts, and what gets worse."""
    changes, lines = document["changes"], []
    if changes:
        lines.append(f"since {changes['earlier']}: {len(changes['new'])} new, {len(changes['gone'])} gone")
        for word in ("new", "gone"):
            lines += [f"  {word:<4} {one['host']} {one['id']}: {one['summary']}" for one in changes[word]]
    return lines + [worse(found["host"], found) for found in document["trends"]]


def _verdict(host: ReportedHost) -> str:
    return str(host["verdict"] if host["state"] == "verified" else host["state"])


def _tally(host: ReportedHost) -> str:
    if host["state"] != "verified":
        return str(host["detail"] or "").partition(" Remedy: ")[0]  # the run's recap has the remedy
    return ", ".join(f"{number} {name}" for name, number in reversed(host["counts"].items()) if number)
