"""Faults that the active tests find between GPUs and between nodes; see faults.py."""

from __future__ import annotations

from functools import partial
from typing import Any

from .faults import Loaded, all_of, cuda, failed, measured


def pairs(injected: dict[str, Any], *numbers: int) -> Any:
    """Return an injection into the copies of pairs of GPUs: 0 is GPU 0 to 1, 1 is GPU 1 to 0, and so on."""
    return all_of(*(partial(_into_pair, injected, number) for number in numbers))


def _into_pair(injected: dict[str, Any], number: int, facts: dict[str, Any]) -> None:
    facts["measurements"]["peer_copies"]["pairs"][number].update(injected)


BETWEEN = [
    Loaded(
        "peer access over PCIe brings wrong data",
        "a100-pcie-x2",
        pairs({"wrong_mib": 64}, 0),
        "peer-copies",
        "clear_peer_path",
        says="GPU 0 to GPU 1: PCI Express corrupts data",
    ),
    Loaded(
        "NVLink brings wrong data",
        "h100x8",
        pairs({"wrong_mib": 1}, 4, 9),
        "peer-copies",
        "contact_support",
        says="GPU 0 to GPU 3, GPU 5 to GPU 0: NVLink corrupts data",
    ),
    Loaded(
        "copy through the host brings wrong data",
        "rtx4090x2",
        pairs({"straight": False, "wrong_mib": 2}, 1),
        "peer-copies",
        "contact_support",
        says="GPU 1 to GPU 0: the path through the host",
    ),
    Loaded(
        "copy between GPUs hangs behind ACS",
        "a100-pcie-x2",
        pairs({"state": "late", "seconds": 60.0}, 1),
        "peer-copies",
        "reboot",
        says="ACS or a translating IOMMU",
    ),
    Loaded(
        "copy between GPUs fails",
        "h200x8",
        pairs({**cuda(719, "LAUNCH_FAILED", "cuMemcpyPeerAsync")}, 3),
        "peer-copies",
        "contact_support",
        says="a copy failed: cuMemcpyPeerAsync",
    ),
    Loaded(
        "copies between GPUs crash CUDA",
        "v100x4",
        pairs({"state": "died", "reason": "the reading process died (signal 11)"}, 0),
        "peer-copies",
        "reinstall_driver",
    ),
    Loaded(
        "NVLink below its floor",
        "h100x8",
        pairs({"gbs": 190.0}, 0, 1, 2, 3, 4, 5),
        "peer-copies",
        "contact_support",
        says="and 2 more pairs: NVLink carries less than 251",
    ),
    Loaded(
        "PCIe pair slower than its siblings",
        "a100-pcie-x2",
        pairs({"gbs": 6.0}, 0),
        "peer-copies",
        "check_seating",
        "warn",
        says="less than half of the 15",
    ),
    Loaded(
        "pair below the operator's floor",
        "rtx4090x2",
        pairs({"gbs": 12.0}, 0, 1),
        "peer-copies",
        "check_seating",
        declared={"profile": {"floors": {"peer_gbs": 20}}},
        says="less than 20 GB/s",
    ),
]
TOGETHER = {"across_nodes": True, "level": "standard"}


def across(record: dict[str, Any]) -> Any:
    """Return an injection into what came of the all_reduce over two nodes, as the first of them saw it."""
    return partial(_into_across, record)


def _into_across(record: dict[str, Any], facts: dict[str, Any]) -> None:
    facts["measurements"]["nodes_all_reduce"].update(record)


Together = partial(Loaded, declared=TOGETHER)
NODES = [
    Together(
        "a node does not come to the all_reduce",
        "h100x8",
        across({"state": "missing", "missing": {"node2": "did not reach 192.0.2.1 port 23457 within 60 s"}}),
        "all-reduce-nodes",
        "check_network",
        says="no all_reduce over 2 nodes without node2",
    ),
    Together(
        "the first node cannot be reached",
        "h100x8",
        across({"state": "unreachable", "reason": "timed out"}),
        "all-reduce-nodes",
        "check_network",
        says="node1 cannot be reached at 192.0.2.1 port 23457 from enp1s0f0np0 timed out",
    ),
    Together(
        "data does not pass between the nodes",
        "l40s",
        across({"state": "late", "seconds": 180.0, "stands": {"node1": "joined", "node2": "joined"}}),
        "all-reduce-nodes",
        "check_network",
        says="data does not pass",
    ),
    Together(
        "a node hangs in the all_reduce",
        "l40s",
        across({"state": "late", "seconds": 180.0, "stands": {"node1": "computes", "node2": "started"}}),
        "all-reduce-nodes",
        "check_network",
        says="node2: PyTorch does not load",
    ),
    Together(
        "a node is gone at the end of the all_reduce",
        "t4",
        across({"state": "late", "seconds": 180.0, "stands": {"node1": "joined", "node2": "did not come"}}),
        "all-reduce-nodes",
        "check_network",
        says="node2: it no longer answers",
    ),
    Together(
        "a node dies in the all_reduce",
        "t4",
        measured("nodes_all_reduce", None),
        "all-reduce-nodes",
        "check_network",
        says="gave no answer",
    ),
    Together(
        "PyTorch fails in the all_reduce over nodes",
        "t4",
        across(failed(None, 1, "ModuleNotFoundError: No module named 'torch'")),
        "all-reduce-nodes",
        "install_software",
    ),
    Together(
        "wrong sum over nodes", "h200x8", across({"wrong": 3}), "all-reduce-nodes", "contact_support", says="3 results"
    ),
    Together(
        "the nodes' network is slow",
        "h100x8",
        across({"all_reduce_gbs": 40.0}),
        "all-reduce-nodes",
        "check_network",
        says="below",
    ),
    Together(
        "the nodes' network is slower than the operator wants",
        "l40s",
        across({"all_reduce_gbs": 5.0}),
        "all-reduce-nodes",
        "check_network",
        declared={**TOGETHER, "profile": {"floors": {"nodes_all_reduce_gbs": 9}}},
        says="below the floor of 9",
    ),
]
