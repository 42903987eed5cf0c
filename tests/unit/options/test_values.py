"""What an option is on a host: what is set there, or else what its argument spec says."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.gpulab.node.plugins.plugin_utils import options
from ansible_collections.gpulab.node.plugins.plugin_utils.options.option import of_spec


@pytest.mark.parametrize(("given", "meant"), [("no", False), ("TRUE", True), (True, True), (None, False)])
def test_a_word_is_a_boolean_and_null_is_the_default(given, meant):
    assert options.complete({"cuda_compat": given})["cuda_compat"] is meant


def test_a_word_stays_text_where_no_boolean_is_expected():
    assert options.complete({"network_firewall": "none", "nccl_address": "on"})["nccl_address"] == "on"


@pytest.mark.parametrize(
    ("given", "meant"), [(True, "true"), (False, "false"), ("true", "true"), ("auto", "auto"), (None, "auto")]
)
def test_a_boolean_is_a_word_where_that_is_a_choice(given, meant):
    assert options.complete({"nvidia_driver_display": given})["nvidia_driver_display"] == meant


def test_ansible_takes_a_boolean_for_that_word_too():
    choice = {"type": "str", "choices": ["auto", "true", "false"]}
    validated = ArgumentSpecValidator({"display": choice}).validate({"display": True})
    assert (validated.error_messages, validated.validated_parameters["display"]) == ([], "true")


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError, match="cuda_compatt"):
        options.complete({"cuda_compatt": True})
    with pytest.raises(KeyError, match="cuda_compatt"):
        options.complete({})["cuda_compatt"]


def test_a_value_is_looked_up_when_it_is_asked_for_and_once():
    asked = []
    values = options.Values(asked.append)
    assert asked == []
    assert [values["reboot_policy"], values["reboot_policy"]] == ["if_idle", "if_idle"]
    assert asked == ["reboot_policy"]


def test_an_option_is_what_its_argument_spec_says():
    (option,) = of_spec(
        {
            "storage_tiers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "description": ["Mounts V(mount) by O(storage_state).", "More."],
                "options": {"mount": {"type": "str", "required": True, "description": "Where."}},
            }
        }
    )
    assert (option.type, option.elements, option.default) == ("list", "dict", [])
    assert option.description == "Mounts mount by storage_state."
    (mount,) = option.fields
    assert mount.required
    assert mount.form is options.forms.OPTIONS["storage_tiers.mount"]
