"""A stand-in for a good BMC, by HTTPS on this machine; no real BMC was ever asked."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.base import Address, Limits
from ansible_collections.gpulab.node.plugins.plugin_utils.bmc.redfish import Redfish
from stubs import bmc as stub


@pytest.fixture
def bmc(tmp_path):
    served = stub.Bmc(tmp_path)
    yield served
    served.close()


@pytest.fixture
def connect(bmc):
    """Return a connection to the stand-in, with what differs."""

    def made(seconds=5.0, **given):
        known = {"host": "node07", "address": bmc.address, "user": stub.USER, "password": stub.PASSWORD}
        return Redfish(Address(**{**known, "fingerprint": bmc.fingerprint, **given}), Limits(seconds, 30.0))

    return made
