"""Made-up nodes and made-up wishes for the property tests."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.plugin_utils import catalog
from hypothesis import strategies as st

from . import make

CATALOG = catalog.load()
RELEASES = [(name, version) for name, releases in CATALOG.frameworks.items() for version in releases]
UNLISTED = {
    "10de:13fe": "Maxwell",
    "10de:1b3f": "Pascal",
    "10de:2f7e": "Blackwell",
}  # the catalog has no record of them
GPUS = st.sampled_from(sorted(CATALOG.gpus)) | st.sampled_from(list(UNLISTED))
BRANCHES = st.sampled_from([*CATALOG.branches, "999"])
YES = st.sampled_from([True])
KERNELS = st.sampled_from(
    [
        "6.1.0-50-amd64",
        "6.1.0-56-cloud-amd64",
        "6.12.94+deb13-amd64",
        "6.12.117+deb13-rt-amd64",
        "6.8.0-51-generic",
        "7.2.12+deb13-amd64",
        "6.19.1-custom",
        "5.14.0-503.el9.x86_64",
    ]
)


def rarely(strategy, otherwise=None):
    """Draw from a strategy in one of six cases: most wishes are left out, or every node would be refused."""
    return st.tuples(st.sampled_from(range(6)), strategy).map(lambda drawn: otherwise if drawn[0] else drawn[1])


def environment(release, index):
    framework, version = release
    return {"name": "one", framework: version, **({"index": index} if index else {})}


ENVIRONMENTS = st.builds(environment, st.sampled_from(RELEASES), rarely(st.sampled_from(["cu126", "cu130", "cuda12"])))
WISHES = st.fixed_dictionaries(
    {
        "nvidia_driver_source": rarely(st.sampled_from(["distribution", "nvidia", "runfile"]), "auto"),
        "nvidia_driver_runfile_sha256": st.sampled_from(["a" * 64, None]),
        "nvidia_driver_branch": rarely(BRANCHES),
        "nvidia_driver_version": rarely(st.sampled_from(["580.65.06", "580.178.04", "595.91.07", "615.78.08"])),
        "nvidia_driver_kernel_modules": rarely(st.sampled_from(["open", "proprietary"]), "auto"),
        "nvidia_driver_kernels": rarely(st.lists(KERNELS, max_size=2), ()),
        "gpulab_allow_branches": rarely(st.lists(BRANCHES, max_size=3), ()),
        "gpulab_without_gpu": rarely(YES, otherwise=False),
        "cuda_state": rarely(st.just("absent"), "present"),
        "cuda_source": rarely(st.sampled_from(["distribution", "pypi", "auto"]), "nvidia"),
        "cuda_toolkits": rarely(st.lists(st.sampled_from(list(CATALOG.toolkits)), max_size=3, unique=True)),
        "cuda_compat": st.booleans(),
        "cudnn_version": rarely(st.sampled_from(["9.5.1", "9.10.2.21", "9.20.0"])),
        "nccl_version": rarely(st.sampled_from(["2.27.5", "2.32.3"])),
        "tensorrt_version": rarely(st.sampled_from(["10.4.0", "10.16.1"])),
        "container_toolkit_engines": rarely(st.lists(st.sampled_from(["docker", "podman"]), unique=True)),
        "gpulab_environments": rarely(st.lists(ENVIRONMENTS, max_size=1), ()),
    }
)


@st.composite
def nodes(draw):
    """Draw the facts of a node: platform, architecture, GPUs, NVSwitches, kernels and Secure Boot are all open."""
    platform = draw(st.sampled_from(list(make.SYSTEMS)))
    kernels = st.lists(st.builds(make.kernel, KERNELS, markers=st.sampled_from([[], ["pci_exclude_bars"]])), max_size=2)
    several = st.lists(GPUS, max_size=3, unique=True)
    node = make.facts(
        platform,
        draw(rarely(several)) or [draw(GPUS)],
        architecture=draw(rarely(st.just("aarch64"), "x86_64")),
        kernels=draw(rarely(kernels)),
        container=draw(rarely(YES, otherwise=False)),
        secure_boot=draw(rarely(st.sampled_from(["enabled", "unknown"]), "disabled")),
        mok_enrolled=draw(st.sampled_from([None, True, False])),
        mok_pending=draw(rarely(YES, None)),
    )
    node["pci"]["nvswitches"] = draw(rarely(st.just([{"address": "0000:aa:00.0", "device": "10de:22a3"}]), []))
    if draw(rarely(YES)):
        node["pci"]["gpus"] = []
    return node
