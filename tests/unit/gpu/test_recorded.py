"""A recording has what a board says and nobody's name: secrets are planted in every field, and none comes out."""

import json
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.driver import errors, known_errors
from ansible_collections.gpulab.node.plugins.module_utils.facts.kernel_log import events
from ansible_collections.gpulab.node.plugins.plugin_utils.facts import model
from ansible_collections.gpulab.node.plugins.plugin_utils.recording import recorded
from ansible_collections.gpulab.node.plugins.plugin_utils.recording.fields import FACTS
from hypothesis import given
from hypothesis import strategies as st

from unit import machines
from unit.checks import loaded, nodes

from .trees import filled, places, planted

MADE = "2026-11-29"
SECRETS = [
    "alice",
    "alices-box",
    "node07.lab.example.org",
    "198.51.100.77",
    "10.1.2.3",
    "fd00::4:12ab",
    "aa:bb:cc:dd:ee:ff",
    "/home/alice/thesis.py",
    "1650522012345",
    "GPU-12345678-9abc-def0-1234-56789abcdef0",
    "MIG-12345678-9abc-def0-1234-56789abcdef0",
    "AKIAIOSFODNN7EXAMPLE",
    "hunter2!",
    "-----BEGIN OPENSSH PRIVATE KEY-----",
]
# A secret behind what fits
BESIDE = [
    "580.178.04-{}",
    "580.178.04 {}",
    "NVIDIA H100 {}",
    "{} H100",
    "0000:19:00.0 {}",
    "nvidia {}",
    "{}\n",
    "ok\n{}",
]
GPU_LINES = (
    "2026-11-20T10:00:00+0100 n kernel: NVRM: Xid (PCI:0000:19:00): 31, pid=4711, name=thesis.py, Ch 00000008\n"
    "2026-11-20T10:00:01+01:00 n kernel: NVRM: Xid (PCI:0000:19:00): 154, pid=4711, name=thesis.py, GPU recovery"
    " action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"
    "2026-11-20T10:00:02+01:00 n kernel: NVRM: Xid (PCI:0000:19:00): 149, pid=4711, name=thesis.py, NETIR_LINK_EVT"
    " Fatal XC0 i0 Link 05 (0x00000021 0x00000020 0x0)\n"
    "2026-11-20T10:00:03+01:00 n kernel: NVRM: Xid (PCI:0000:19:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 05"
    " (0x00000021 0x00000002 0x0)\n"
    "2026-11-20T10:00:04+01:00 n kernel: mlx5_core 0000:29:00.0: port_module:248:(pid 4711): Detected insufficient"
    " power on the PCIe slot (27W).\n"
    "2026-11-20T10:00:05+01:00 n kernel: NVRM: GPU 0000:19:00.0: RmInitAdapter failed! (0x26:0x56:1634) alice\n"
    "2026-11-20T10:00:06+01:00 n kernel: nvidia-nvswitch0: SXid (PCI:0000:01:00.0): 20034, Fatal, Link 30 alice\n"
)


def facts_of(name):
    """Return the facts of a healthy node as the module returns them, with a tree in every list and place."""
    facts = nodes.healthy(name)
    for of_the_proof in ("cuda_compiled", "container_started"):
        facts.pop(of_the_proof)
    return facts


def whole():
    """Return facts in which no field is empty: those of a healthy node, and one of each thing that it has not."""
    facts = {**filled(model.Facts, "x"), **facts_of("h100x8")}
    for part, name in (("nvml", "gpus"), ("nvml", "peers"), ("pci", "gpus"), ("pci", "nvswitches")):
        del facts[part][name][1:]
    gpu = facts["nvml"]["gpus"][0]
    del gpu["nvlink"]["links"][1:]
    del facts["infiniband"][1:], facts["kernels"][1:]
    gpu["processes"] = [{"pid": 4711, "memory_mib": 5}]
    gpu["mig_instances"] = [
        {
            "name": "1g.10gb",
            "profile": "1g.10gb",
            "id": 1,
            "placement": [0, 1],
            "compute_slices": [1],
            "devices": [{"index": 0, "uuid": "MIG-1"}],
        }
    ]
    gpu["licence"] = {"product": "x", "licensed": True}
    facts["nvml"]["error"] = {"code": 9, "text": "x"}
    device = {"address": "0000:19:00.0", "device": "10de:2330", "driver": "nvidia"}
    facts["pci"]["lent"] = [device]
    facts["pci"]["other_gpus"] = [{**device, "driver": "ast", "maker": "AMD", "boot_vga": True, "monitors": ["x"]}]
    facts["pci"]["gpus"][0] |= {"redirecting_bridges": ["0000:18:00.0"], "monitors": ["x"]}
    module = {"slot": "x", "mib": 5, "type": "DDR5", "mts": 4800, "rated_mts": 5600}
    facts["hardware"]["memory"] = {
        "modules": [module],
        "ecc": True,
        "errors": [{"module": "x", "corrected": 0, "uncorrected": 0}],
    }
    facts["kernel_log"] = {"readable": True, "events": events(GPU_LINES)}
    return facts


WHOLE = whole()
PLACES = places(WHOLE)


def kept(facts):
    """Return the recording as text, None where it is refused."""
    try:
        return json.dumps(recorded.build({"facts": facts}, MADE), ensure_ascii=False)
    except recorded.UnfitError:
        return None


RECORDED = kept(WHOLE)


@pytest.mark.parametrize("name", nodes.MODELS)
def test_healthy_nodes_are_recorded_and_their_recordings_tell_no_name(name):
    made = recorded.build({"facts": facts_of(name)}, MADE)
    assert list(recorded.faults(made)) == []
    assert made["licence"] == "GPL-3.0-or-later"


def test_the_whole_tree_is_recorded():
    assert kept(WHOLE) is not None


def test_every_field_of_the_facts_is_decided():
    """A new fact is recorded or left out because somebody said so."""
    assert list(undecided(model.Facts, FACTS, "facts")) == []


def undecided(hint, form, path):
    """Yield the fields of a type that the recording does not name."""
    if form is recorded.LEFT_OUT or callable(form):
        return
    kinds = [one for one in get_args(hint) if one is not type(None)]
    if is_typeddict(hint):
        for name, part in get_type_hints(hint).items():
            yield from undecided(part, form[name], f"{path}.{name}") if name in form else [f"{path}.{name}"]
    elif get_origin(hint) is dict:
        for one in form.values() if kinds[1] is not Any else ():
            yield from undecided(kinds[1], one, path)
    elif kinds:
        yield from undecided(kinds[0], form[0] if get_origin(hint) is list else form, path)


@pytest.mark.parametrize("form", ["{}", *BESIDE])
def test_a_secret_in_any_field_does_not_come_out(form):
    told, refused = [], 0
    for place in PLACES:
        for secret in SECRETS if form == "{}" else ("alice", "1650522012345"):
            text = kept(planted({place[0]: WHOLE[place[0]]}, place, form.format(secret)))
            refused += text is None
            if text is not None and (secret in text or json.dumps(secret)[1:-1] in text):
                told.append((place, secret))
    assert told == []
    assert refused > len(PLACES) / 2


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_as_the_name_of_a_field_does_not_come_out(secret):
    objects = {place[:end] for place in PLACES for end in range(len(place)) if place[end - 1 : end] != (0,)}
    for place in objects:
        at = WHOLE
        for name in place:
            at = at[name]
        if isinstance(at, dict):
            text = kept(planted(WHOLE, place, {**at, secret: 1}))
            assert text is None or secret not in text, place


@given(place=st.sampled_from(PLACES), secret=st.text(min_size=6, max_size=40))
def test_no_text_comes_out_but_what_a_form_takes(place, secret):
    text = kept(planted({place[0]: WHOLE[place[0]]}, place, secret))
    assert text is None or secret not in text or secret in RECORDED


def test_secrets_in_all_fields_that_are_no_board_s_are_left_out():
    facts = {
        **filled(model.Facts, "alice"),
        **{name: WHOLE[name] for name in FACTS if FACTS[name] is not recorded.LEFT_OUT},
    }
    assert "alice" not in kept(facts)


def test_the_same_thing_has_the_same_token_and_another_thing_another():
    facts = loaded.measured("rtx4090x2")
    measurements = facts.pop("measurements")
    facts = {name: part for name, part in facts.items() if name not in ("cuda_compiled", "container_started")}
    for number, gpu in enumerate(facts["nvml"]["gpus"]):
        gpu["uuid"] = measurements["gpus"][number]["uuid"] = f"GPU-alice-{number}"
    made = recorded.build({"facts": facts, "measurements": measurements}, MADE)
    tokens = [gpu["uuid"] for gpu in made["facts"]["nvml"]["gpus"]]
    assert [gpu["uuid"] for gpu in made["measurements"]["gpus"]] == tokens
    assert len(set(tokens)) == 2
    assert "alice" not in json.dumps(made)


def test_figures_versions_and_part_numbers_stay():
    facts = facts_of("h100x8")
    made = recorded.build({"facts": facts}, MADE)["facts"]
    gpu, was = made["nvml"]["gpus"][0], facts["nvml"]["gpus"][0]
    for name in ("name", "vbios", "board_part_number", "bus_id", "device", "temperature", "power_mw", "nvlink", "gsp"):
        assert gpu[name] == was[name]
    assert made["nvml"]["driver_version"] == nodes.DRIVER
    assert made["nvml"]["peers"] == facts["nvml"]["peers"]
    assert made["pci"]["nvswitches"] == facts["pci"]["nvswitches"]
    assert (made["system"]["kernel"], made["system"]["hostname"]) == ("6.1.0-49", "node1")


def test_a_message_of_the_kernel_keeps_its_judgement_and_no_text_of_anybody():
    before = events(GPU_LINES)
    assert len(before) == 7
    after = recorded.build({"facts": {"kernel_log": {"readable": True, "events": before}}}, MADE)["facts"]["kernel_log"]
    assert [errors.judged(event) for event in after["events"]] == [errors.judged(event) for event in before]
    text = json.dumps(after)
    for name in ("thesis", "4711", "alice", "+01"):
        assert name not in text
    assert after["events"][0]["time"] == "2026-11-20T09:00:00+00:00"


@pytest.mark.parametrize("kind", [kind for kind, known in known_errors.LINES.items() if "ends" not in known])
def test_each_known_line_is_judged_without_its_text(kind):
    event = {"kind": kind, "xid": None, "bus_id": None, "count": 1, "time": None, "text": "alice"}
    assert errors.parsed(event) == ""
    log = {"kernel_log": {"readable": True, "events": [event]}}
    (made,) = recorded.build({"facts": log}, MADE)["facts"]["kernel_log"]["events"]
    assert errors.judged(made) == errors.judged(event)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (154, "action changed from 0x0 to 0x1 (alice)"),
        (149, "ALICE_UNIT Fatal"),
        (149, "NETIR Fatal (0x1 0x1650522012345)"),
        ("adapter_power", "Detected insufficient power on the PCIe slot (1650522012345W)"),
    ],
)
def test_words_of_nobody_s_list_do_not_pass_as_a_known_message(number, text):
    kind = number if isinstance(number, str) else "xid"
    told = errors.parsed({"kind": kind, "xid": number, "text": text})
    assert "alice" not in told.lower()
    assert "1650522012345" not in told


@pytest.mark.parametrize(
    ("where", "value", "fault"),
    [
        (("system", "owner"), "x", "facts.system.owner"),
        (("nvml", "gpus"), "x", "facts.nvml.gpus"),
        (("system", "cpu_cores"), True, "facts.system.cpu_cores"),
        (("system", "cpu_cores"), 2**60, "facts.system.cpu_cores"),
        (("nvml", "driver_version"), "10.0.0.7", "facts.nvml.driver_version"),
        (("ALICE",), 1, "a field in .facts"),
    ],
)
def test_what_is_not_known_is_refused_by_its_field_alone(where, value, fault):
    facts = facts_of("l40s")
    at = facts
    for name in where[:-1]:
        at = at[name]
    at[where[-1]] = value
    with pytest.raises(recorded.UnfitError, match=fault.replace(".", r"\.")) as error:
        recorded.build({"facts": facts}, MADE)
    assert str(value) not in str(error.value) or value == "x"


def test_an_unread_value_stays_and_one_with_another_name_is_refused():
    facts = facts_of("l40s")
    facts["nvml"]["gpus"][0]["serial"] = {"error": "UNKNOWN", "code": 999}
    facts["nvml"]["gpus"].append({"index": 1, "error": "GPU_IS_LOST", "code": 15})
    gpus = recorded.build({"facts": facts}, MADE)["facts"]["nvml"]["gpus"]
    assert gpus[0]["serial"] == {"error": "UNKNOWN", "code": 999}
    assert gpus[1] == {"index": 1, "error": "GPU_IS_LOST", "code": 15}
    facts["nvml"]["gpus"][0]["serial"] = {"error": "alice", "code": 999}
    with pytest.raises(recorded.UnfitError):
        recorded.build({"facts": facts}, MADE)


def test_a_file_that_holds_more_is_no_recording():
    made = recorded.build({"facts": facts_of("h100x8")}, MADE)
    gpu = made["facts"]["nvml"]["gpus"][0]
    for place, value in (("serial", "1650522012345"), ("uuid", "GPU-1234")):
        assert list(recorded.faults({**made, "facts": machines.unshared(made["facts"])})) == []
        was, gpu[place] = gpu[place], value
        assert list(recorded.faults(made)) == ["it holds what a recording leaves out"]
        gpu[place] = was
    assert list(recorded.faults({**made, "owner": "alice"})) == ["owner"]
    assert list(recorded.faults({**made, "licence": "none"})) != []
    assert list(recorded.faults({"facts": {}})) != []


def test_the_file_is_named_by_board_and_driver():
    made = recorded.build({"facts": facts_of("h100x8")}, MADE)
    assert recorded.file_name(made, ".yml") == f"nvidia-h100-80gb-hbm3-{nodes.DRIVER}.yml"
