"""The block devices that lsblk lists: what it does not know, odd names, and devices made of several."""

import json

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.lsblk import Device, descendants, parse, tops

PART = {"kname": "sda1", "type": "part", "size": 500, "maj:min": "8:1"}
ARRAY = {"kname": "md0", "type": "raid1", "size": 400, "maj:min": "9:0"}


def read(*records):
    return parse(json.dumps({"blockdevices": records}))


def disk(name, number, *children):
    return {"kname": name, "type": "disk", "size": 1000, "maj:min": number, "children": [*children]}


@pytest.mark.parametrize(
    ("record", "device"),
    [
        pytest.param(
            {
                "name": "nvme0n1", "kname": "nvme0n1", "type": "disk", "size": 2000, "maj:min": "259:0",
                "serial": " S5 GX ", "wwn": "eui.0025", "tran": "nvme", "model": "三星 9 ", "rota": False,
            },
            Device("/dev/nvme0n1", "disk", 2000, "259:0", "S5 GX", (), "eui.0025", "nvme", "三星 9", rotational=False),
            id="all-is-known",
        ),
        pytest.param(
            {
                "kname": "cciss!c0d0", "type": "disk", "size": "2000", "maj:min": " 104:0 ",
                "serial": None, "wwn": None, "tran": None, "model": None, "rota": None, "children": None,
            },
            Device("/dev/cciss/c0d0", "disk", 2000, "104:0"),
            id="nothing-is-known",
        ),
        pytest.param({"kname": "sr0", "type": "rom", "size": None}, Device("/dev/sr0", "rom", 0, ""), id="no-size"),
    ],
)  # fmt: skip
def test_a_device(record, device):
    assert read(record) == {device.path: device}


def test_what_is_made_of_several_is_one_device_below_each():
    found = read(disk("sda", "8:0", {**PART, "children": [ARRAY]}), disk("sdb", "8:16", ARRAY))
    assert [device.path for device in tops(found)] == ["/dev/sda", "/dev/sdb"]
    assert list(descendants("/dev/sda", found)) == ["/dev/sda1", "/dev/md0"]
    assert list(descendants("/dev/sdb", found)) == ["/dev/md0"]
    assert list(descendants("/dev/sdz", found)) == []


def test_what_lies_on_a_device_stays_known_where_another_listing_of_it_has_less():
    found = read(disk("sda", "8:0", {**ARRAY, "children": [PART]}), disk("sdb", "8:16", ARRAY))
    assert found["/dev/md0"].below == ("/dev/sda1",)


@pytest.mark.parametrize("text", ["", " \n", '{"blockdevices": []}'])
def test_no_devices(text):
    assert parse(text) == {}


@pytest.mark.parametrize("text", ["lsblk: no", "{}", '{"blockdevices": [{"type": "disk"}]}'])
def test_a_listing_that_is_not_understood_is_never_taken_for_no_devices(text):
    with pytest.raises((ValueError, KeyError)):
        parse(text)
