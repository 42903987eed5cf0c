"""Inventories as the check takes them."""

from __future__ import annotations

from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.inventory_check import check

GROUPS = {
    "all": ["node1", "node2", "node3"],
    "gpu-nodes": ["node1", "node2", "node3"],
    "workstations": ["node1"],
    "training_servers": ["node2", "node3"],
    "inference_servers": [],
    "rack_7": ["node3"],
}


def check_hosts(hosts, groups=None):
    """Return what is wrong, as the operator reads it."""
    refusals = check(hosts, GROUPS if groups is None else groups, options.load(), catalog.load())
    return [str(refusal) for refusal in refusals]


def check_variables(**variables):
    """Return what is wrong with the variables of one host."""
    return check_hosts({"node1": variables})
