"""What a report is built from."""

import json

from ansible_collections.gpulab.node.plugins.plugin_utils.report.hosts import gather


def test_what_modules_of_a_node_said_is_shown_without_control_characters():
    told = {"failed": True, "msg": "no \x1b]0;owned\x07such \u202edriver"}
    hosts = gather(["node1"], {"node1": {"gpulab_verify": told, "__verify_tested": told}})
    assert json.dumps(hosts, ensure_ascii=False).isprintable()
    assert hosts["node1"]["verify"]["msg"] == "no such driver"
