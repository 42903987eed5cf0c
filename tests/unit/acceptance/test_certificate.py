"""What a certificate says, when it holds, and what it says of the one before."""

from __future__ import annotations

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import signatures
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils.acceptance import certificate, floors, page, state

from unit.acceptance.clusters import Cluster, named
from unit.acceptance.test_state import begun, measured

KIND = floors.Kind("H200", floors.NCCL, 4)
OWN = {"board": "H200", "transport": "nccl", "value_gbs": 300, "source": "the vendor's sheet"}


def made(cluster, last=None, **changes):
    """Return the certificate of a whole acceptance of a simulated cluster."""
    acceptance = begun(cluster.names, ended="then", **changes)
    while True:
        wanted, verdicts = state.standing(acceptance, 0)
        if wanted is None:
            return certificate.make(acceptance, verdicts, version="1", last=last)
        acceptance.results.append(measured(wanted, cluster.result(wanted)))


@pytest.fixture
def signed(tmp_path):
    """Return a function that writes a certificate and its signature, and returns its path; and the signers."""
    key = tmp_path / "keys/signing"
    signatures.make_key(key, certificate.PURPOSE)

    def write(what, run="1", purpose=certificate.PURPOSE):
        path = tmp_path / "acceptances" / run / certificate.FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(certificate.canonical({**what, "run": run}))
        signatures.sign(path, key, purpose)
        return path

    return write, key.with_name(signatures.SIGNERS).read_text()


def test_nodes_that_all_pass_are_accepted():
    assert made(Cluster(9))["accepted"] is True


@pytest.mark.parametrize(
    "cluster",
    [Cluster(9, bad=["n01"]), Cluster(4, trunks=[({"n00", "n01"}, {"n02", "n03"})]), Cluster(9, silent=named(9)[:5])],
)
def test_a_bad_node_or_a_finding_between_nodes_is_no_acceptance(cluster):
    assert made(cluster)["accepted"] is False


def test_a_node_that_is_not_tested_is_no_acceptance_unless_it_need_not_be():
    def of(**changes):
        acceptance = begun(named(5), ended="then", **changes)
        acceptance.nodes["n04"].untested = "it could not be reached"
        return acceptance

    for changes, accepted in (({}, False), ({"allowed": ["n04"]}, True), ({"allowed": ["n00"]}, False)):
        acceptance, cluster = of(**changes), Cluster(4)
        while (standing := state.standing(acceptance, 0))[0] is not None:
            acceptance.results.append(measured(standing[0], cluster.result(standing[0])))
        told = certificate.make(acceptance, standing[1], version="1", last=None)
        assert told["accepted"] is accepted
        assert told["nodes"]["n04"]["verdict"] == "not tested"


def test_nothing_measured_is_no_acceptance():
    acceptance = begun(["n00"], ended="then", allowed=["n00"])
    _wanted, verdicts = state.standing(acceptance, 0)
    assert certificate.make(acceptance, verdicts, version="1", last=None)["accepted"] is False


def test_a_signed_certificate_holds_without_a_network(signed):
    write, signers = signed
    assert certificate.verified(write(made(Cluster(4))), signers)["accepted"] is True


@pytest.mark.parametrize("spoil", ["byte", "namespace", "signers", "no signature", "form", "nobody"])
def test_a_certificate_that_somebody_touched_is_refused(signed, tmp_path, spoil):
    write, signers = signed
    path = write(made(Cluster(4)), purpose="gpulab-bundle" if spoil == "namespace" else certificate.PURPOSE)
    if spoil == "byte":
        path.write_bytes(path.read_bytes().replace(b'"passed"', b'"failed"', 1))
    if spoil == "signers":
        signatures.make_key(tmp_path / "others/signing", certificate.PURPOSE)
        signers = (tmp_path / "others" / signatures.SIGNERS).read_text()
    if spoil == "no signature":
        path.with_name(path.name + signatures.SUFFIX).unlink()
    if spoil == "form":
        path = write({"schema": 1, "purpose": certificate.PURPOSE})
    with pytest.raises(Refusal) as caught:
        certificate.verified(path, "" if spoil == "nobody" else signers)
    assert caught.value.code == "F145"


def test_the_newest_signed_certificate_of_these_boards_counts_as_the_last(signed, tmp_path):
    write, signers = signed
    directory = tmp_path / "acceptances"
    write(made(Cluster(4)), run="1")
    write(made(Cluster(4)), run="2").write_text("{}")
    found, digest = certificate.last(directory, "H200", {*named(4)}, signers)
    assert found["run"] == "1"
    assert digest == certificate.digest((directory / "1" / certificate.FILE).read_bytes())
    assert certificate.last(directory, "A100", {*named(4)}, signers) is None
    assert certificate.last(directory, "H200", {"other"}, signers) is None
    assert made(Cluster(4), last=(found, digest))["last"] == {"run": "1", "sha256": digest}


def number(gbs, lowest, highest, **changes):
    return {"nodes": ["a", "b"], "gbs": gbs, "lowest": lowest, "highest": highest, "transport": "gloo", **changes}


@pytest.mark.parametrize(
    ("now", "percent"),
    [
        (number(9.0, 8.9, 9.1), [-10.0]),
        (number(11.0, 10.9, 11.1), [10.0]),
        (number(9.6, 9.5, 9.7), []),  # below the least effect
        (number(9.0, 8.0, 9.95), []),  # within what both spread over
        (number(9.0, 8.9, 9.1, transport="nccl"), []),
        (number(9.0, 8.9, 9.1, nodes=["a", "c"]), []),
    ],
)
def test_a_change_is_told_above_the_least_effect_and_outside_both_spreads(now, percent):
    assert [one["percent"] for one in certificate.compared([number(10.0, 9.9, 10.1)], [now])] == percent


def test_the_floor_is_ones_own_then_that_of_the_last_certificate_then_that_of_siblings():
    last = {"run": "1", "accepted": True, "numbers": [{"gbs": 400.0, "transport": "nccl over ib0"}]}
    assert floors.floor([OWN], KIND, last).value == 300
    assert "vendor's sheet" in floors.floor([OWN], KIND, last).source
    assert floors.floor([{**OWN, "board": "A100"}], KIND, last).value == pytest.approx(320)
    assert floors.floor([], KIND, {**last, "accepted": False}).value is None
    assert "best pair" in floors.floor([], KIND, None).source


def test_without_floor_siblings_certificate_or_ports_nothing_is_measured():
    few = floors.Kind("H200", floors.NCCL, 3)
    with pytest.raises(Refusal) as caught:
        floors.floor([], few, None)
    assert caught.value.code == "F142"
    port = {"state": "active", "rate_gbps": 400}
    assert floors.floor([], floors.Kind("H200", floors.NCCL, 3, [port]), None).value == pytest.approx(20.0)


def test_the_page_shows_all_that_the_certificate_says_and_runs_nothing_of_a_node():
    told = made(Cluster(4, trunks=[({"n00", "n01"}, {"n02", "n03"})]), left_out=["the proof"])
    told["nodes"]["n00"]["boards"] = "<script>alert(1)</script>"
    text = page.page(told, "abc", "signed with signing")
    assert "not passed" in text
    assert "n00, n01 and n02, n03" in text
    assert "<script>alert" not in text
    assert "left out" in text


def test_canonical_is_the_same_for_the_same_content():
    told = made(Cluster(4))
    assert certificate.canonical(json.loads(certificate.canonical(told))) == certificate.canonical(told)
