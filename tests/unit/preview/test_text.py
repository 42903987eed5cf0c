"""The preview on a terminal."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import by_subject
from ansible_collections.gpulab.node.plugins.plugin_utils.preview import document, text
from ansible_collections.gpulab.node.plugins.plugin_utils.refusals import refuse

from unit.preview import hosts


def lines(one):
    why = {"node": by_subject(one["plan"])} if one["plan"] else {}
    return text.lines(document.build({"node": one}, hosts.CREATED), why)


def row(one):
    head, cells, *_rest = lines(one)
    starts = [head.index(name) for name in text.HEADS]
    return [cells[start:end].strip() for start, end in zip(starts, [*starts[1:], None])]


@pytest.mark.parametrize(
    ("one", "cells"),
    [
        pytest.param(
            hosts.provisioned(),
            ["nothing to do", "2 x GeForce RTX 4090", hosts.OLD, "535 proprietary", "0 B", "no", "no"],
            id="provisioned",
        ),
        pytest.param(
            hosts.virgin(),
            ["would change", "2 x GeForce RTX 4090", "none", "535 proprietary", "219 MB", "yes", "no"],
            id="virgin",
        ),
        pytest.param(
            hosts.virgin(listed=False),
            ["would change", "2 x GeForce RTX 4090", "none", "535 proprietary", "not known yet", "yes", "no"],
            id="virgin-without-lists",
        ),
        pytest.param(
            hosts.busy(hosts.upgradable()),
            ["would change", "2 x GeForce RTX 4090", hosts.OLD, "535 proprietary", "200 MB", "yes", "yes (1)"],
            id="busy-upgrade",
        ),
        pytest.param(
            hosts.refused(),
            ["REFUSED", "2 x GeForce RTX 4090", hosts.OLD, "no plan", "-", "-", "no"],
            id="refused",
        ),
        pytest.param(hosts.unreachable(), ["UNREACHABLE", *"??????"], id="unreachable"),
    ],
)
def test_the_table_has_a_line_for_each_host(one, cells):
    assert row(one) == ["node", *cells]


TOGETHER = "1 of 1 hosts: would change: roles 2, packages {}, download {}, reboots 1"


@pytest.mark.parametrize(
    ("one", "last"),
    [
        (hosts.provisioned(), "1 of 1 hosts: nothing to do"),
        (hosts.refused(), "1 of 1 hosts: REFUSED"),
        (hosts.virgin(), TOGETHER.format(5, "219 MB")),
        (hosts.virgin(listed=False), TOGETHER.format(5, "0 B and what is not known yet")),
    ],
)
def test_it_ends_with_how_much_would_change(one, last):
    assert lines(one)[-1] == last


def test_every_host_is_in_the_table_whatever_became_of_the_others():
    document_ = hosts.fleet()
    names = [line.split()[0] for line in text.lines(document_)[1 : 1 + len(document_["hosts"])]]
    assert names == [host["name"] for host in document_["hosts"]]


def test_a_simulated_node_says_so_in_the_table_and_below():
    one = hosts.provisioned()
    one["facts"]["simulated"] = "made up"
    assert row(one)[0] == "node (simulated)"
    assert "node: nothing to do  (SIMULATED: made up)" in lines(one)


def test_a_busy_node_names_who_computes_there_and_that_the_reboot_is_refused():
    said = "\n".join(lines(hosts.busy(hosts.upgradable())))
    assert "GPU users python3 (PID 4711, user alice) since 2026-11-20T18:00:00Z" in said
    assert "at work   alice, who is logged in (rsync) since 2026-11-20T17:00:00Z" in said
    assert "but refused now: GPULAB-H030 Wait until it is idle" in said
    assert "nvidia-persiste " not in said
    assert "restart nvidia-persistenced: its package changes" in said


def test_a_refused_node_has_cause_and_remedy():
    said = "\n".join(lines(hosts.refused()))
    refusal = refuse("P002")
    assert f"refused   GPULAB-P002 {refusal.cause}" in said
    assert f"remedy    {refusal.remedy}" in said


def test_long_lists_are_cut_and_say_so():
    one = hosts.provisioned()
    packages = {f"p{n}": "1" for n in range(text.SHOWN + 2)}
    one["results"] = [hosts.predicted("nvidia_driver", install=packages)]
    said = "\n".join(lines(one))
    assert f"install {text.SHOWN + 2} packages: p0 1, " in said
    assert "and 2 more" in said
    assert f"p{text.SHOWN} " not in said


def test_reasons_warnings_and_space_are_told():
    one = hosts.virgin()
    one["facts"]["filesystems"][0]["free_mib"] = 100
    said = "\n".join(lines(one))
    assert "why       driver: Source distribution is requested." in said
    assert "note      Branch 535 is taken with nvidia_driver_source: distribution" in said
    assert "free 100 MiB  NOT ENOUGH" in said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1500, "2 kB"), (219_049_000, "219 MB"), (3_456_000_000, "3.5 GB")]
)
def test_sizes(count, said):
    assert text.size(count) == said


WHY = {"host types": ["a sets b.", "a sets c."], "driver": ["Branch 1.", "Open."], "environment torch": ["By name."]}


def why(**given):
    said = text.lines(document.build({"node": hosts.virgin()}, hosts.CREATED), {"node": WHY}, **given)
    first = next(number for number, line in enumerate(said) if line.startswith("  why "))
    return [line[12:] for line in said[first:] if line.startswith(("  why ", " " * 12))]


def test_of_each_decision_the_first_reason_is_shown_by_its_subject():
    assert why()[:3] == ["driver: Branch 1.", "environment torch: By name.", "and 3 more reasons: run it with -v"]


def test_all_reasons_are_shown_where_they_are_asked_for():
    told = [f"{subject}: {reason}" for subject, reasons in WHY.items() for reason in reasons]
    assert why(whole=True)[:5] == told


@pytest.mark.parametrize(
    ("expected", "ending"),
    [
        ({"base": 20.0, "nvidia_driver": 400.0}, ", time about 7 min"),
        ({"base": 2.0}, ", time less than 1 min"),
        ({}, ", reboots 1"),
    ],
)
def test_a_preview_ends_with_how_long_it_would_take_where_that_is_known(expected, ending):
    one = {**hosts.virgin(), "expected": expected}
    assert lines(one)[-1].endswith(ending)


def test_nodes_are_changed_side_by_side():
    short, long = ({**hosts.virgin(), "expected": {"base": seconds}} for seconds in (60.0, 180.0))
    assert text.lines(document.build({"a": short, "b": long}, hosts.CREATED))[-1].endswith(", time about 3 min")
