"""The licence of a vGPU, as NVML tells it; NVML is a stand-in here, for no board of ours is one."""

from types import SimpleNamespace

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.nvml.gpu import GpuReader
from ansible_collections.gpulab.node.plugins.module_utils.nvml.library import NvmlError


def licence(*products, supported=1):
    """Read the licence where NVML lists products, each (name, enabled, licensed)."""

    def fill(_function, _handle, told):
        told.isGridLicenseSupported, told.licensableFeaturesCount = supported, len(products)
        for one, (name, enabled, licensed) in zip(told.gridLicensableFeatures, products):
            one.productName, one.featureEnabled, one.featureState = name, enabled, licensed
        return told

    return GpuReader(SimpleNamespace(structure=fill), None).licence()


def test_what_is_enabled_counts():
    found = licence((b"NVIDIA Virtual Applications", 0, 0), (b"NVIDIA Virtual Compute Server", 1, 0))
    assert found == {"product": "NVIDIA Virtual Compute Server", "licensed": False}


def test_a_licensed_product_is_named():
    found = licence((b"NVIDIA Virtual Applications", 1, 0), (b"NVIDIA RTX Virtual Workstation", 1, 1))
    assert found == {"product": "NVIDIA RTX Virtual Workstation", "licensed": True}


@pytest.mark.parametrize(("products", "supported"), [((), 1), (((b"x", 0, 0),), 1), (((b"x", 1, 0),), 0)])
def test_a_board_that_takes_no_licence_tells_none(products, supported):
    with pytest.raises(NvmlError):
        licence(*products, supported=supported)
