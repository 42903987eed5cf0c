"""The form of every option that takes text: nothing gets into a run that is more than one value."""

from __future__ import annotations

import re

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core import quoting
from ansible_collections.gpulab.node.plugins.plugin_utils.options import forms

from .bad_texts import good, inventory, places, texts
from .make import check_variables

PLACES = dict(places())
TEXTS = sorted(place for place, form in forms.OPTIONS.items() if place in PLACES and not form.entries)
REFUSED = {"GPULAB-I007", "GPULAB-I030", "GPULAB-I031", "GPULAB-E018"}
MAPPINGS = sorted(place for place, form in forms.OPTIONS.items() if form.entries)
# Texts that are no argument, no path on a node and in no file there: patterns of hosts, paths on the controller.
SECRETS = ("secure_boot_mok_password", "directory_bind_password", "model_store_token", "bmc_password")
FREE = {forms.LINE, forms.SECRET, forms.HERE}
FREE |= {forms.OPTIONS[name] for name in SECRETS}


def refusals(place, value):
    """Return what is wrong with a value, by its code."""
    return [message.split()[0] for message in check_variables(**inventory(PLACES[place], value))]


def test_every_option_that_takes_text_has_a_form_and_every_form_an_option():
    assert {place for place, form in forms.OPTIONS.items() if not form.choices} == set(PLACES)


@pytest.mark.parametrize("place", TEXTS)
def test_a_text_of_the_form_passes(place):
    assert not set(refusals(place, good(forms.OPTIONS[place]))) & {"GPULAB-I007", "GPULAB-I030", "GPULAB-I031"}


@pytest.mark.parametrize("place", TEXTS)
def test_no_text_that_passes_is_more_than_one(place):
    form = forms.OPTIONS[place]
    for text in texts(form):
        if REFUSED & set(refusals(place, text)):
            continue
        assert quoting.problem(text) is None, repr(text)
        assert len(text) <= form.most, repr(text)
        if form not in FREE:
            assert not text.startswith("-") or re.fullmatch(r"-1[kKmMgGtT]?[bB]?", text), repr(text)
        if form in (forms.PLACE, forms.ANY_PLACE, forms.NAME, forms.SMALL_NAME):
            assert ".." not in text.split("/"), repr(text)
        if form in (forms.NAME, forms.SMALL_NAME):
            assert "/" not in text, repr(text)


@pytest.mark.parametrize("place", MAPPINGS)
def test_nothing_in_a_mapping_is_more_than_one_value(place):
    for pattern, form in forms.OPTIONS[place].entries:
        name = good(forms.Form(pattern))
        for text in ("\n", "a\nb", "\0", "a\r", "\x1b[2J", "a" * 5000):
            for given in ({name: text}, {name + text: "1"}, {name: {"a": [text]}}, {name: {text: 1}}):
                assert "GPULAB-I030" in refusals(place, given), (given, form)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("nvidia_driver_module_options.nvidia", {"NVreg_A": '1" install nvidia "/bin/sh'}),
        ("nvidia_driver_module_options.nvidia", {"NVreg_A=1 NVreg_B": 1}),
        ("tuning_overrides", {"iommu": "pt init=/bin/sh"}),
        ("tuning_overrides", {"iommu": 'pt"; id; "'}),
        ("nccl_overrides", {"PATH": "1"}),
        ("conda_environments.variables", {"A B": "1"}),
    ],
)
def test_what_one_file_alone_would_misread_is_refused(place, value):
    assert set(refusals(place, value)) & {"GPULAB-I007", "GPULAB-I030"}


# Values of mappings that would be written as something else: (option, value).
NO_VALUES = [
    ("nccl_overrides", {"NCCL_DEBUG": True}),
    ("nccl_overrides", {"NCCL_DEBUG": ["INFO"]}),
    ("nccl_overrides", {"NCCL_DEBUG": {"a": "b"}}),
    ("container_toolkit_registry_mirrors", {"docker.io": "https://registry.lab"}),
    ("container_toolkit_registry_mirrors", {"docker.io": "registry.lab/docker"}),
    ("container_toolkit_registry_mirrors", {"../x": "registry.lab"}),
    ("slurm_settings", {"MaxJobCount": None}),
    ("slurm_settings", {"MaxJobCount": [1, 2]}),
    ("slurm_settings", {"Prolog": "/bin/true Epilog=/tmp/x"}),
    ("slurm_settings", {"Prolog": "/bin/true # x"}),
    ("slurm_settings", {"Prolog": "/bin/true\\"}),
    ("slurm_settings", {"NodeName": "x"}),
    ("slurm_settings", {"partitionname": "x"}),
    ("slurm_settings", {"Include": "/etc/passwd"}),
    ("slurm_settings", {"Max Job": 1}),
    ("nvidia_driver_module_options.nvidia", {"NVreg_A": True}),
    ("nvidia_driver_module_options.nvidia", {"NVreg_A": None}),
    ("nvidia_driver_module_options.nvidia", {"NVreg_A": {"b": 1}}),
    ("conda_environments.variables", {"A": None}),
    ("conda_environments.variables", {"A": ["b"]}),
    ("conda_environments.replace", {"-e .": ["b"]}),
    ("tuning_overrides", {"vm.swappiness": ["1"]}),
    ("tuning_overrides", {"vm.swappiness": {"a": 1}}),
    ("gpu_settings_values", {"power_limit_watts": "300"}),
    ("gpu_settings_values", {"power_limit": 300}),
    ("gpu_settings_values", {"ecc": "on"}),
    ("gpu_settings_per_gpu", {"0": {"locked_clocks_mhz": [1500, 300]}}),
    ("gpu_settings_per_gpu", {"0": 300}),
    ("verify_profile", {"pcie_widht": 16}),
    ("verify_profile", {"pcie_width": "x16"}),
    ("verify_profile", {"floors": {"memory_gb": 2800}}),
    ("verify_profile", {"floors": {"memory_gbs": "fast"}}),
    ("verify_profile", {"floors": 2800}),
]


@pytest.mark.parametrize(("place", "value"), NO_VALUES)
def test_a_mappings_value_of_the_wrong_type_or_of_more_than_one_value_is_refused(place, value):
    said = check_variables(**inventory(PLACES[place], value))
    assert said
    assert all(message.startswith("GPULAB-") for message in said)


VALUES = [
    ("nccl_overrides", {"NCCL_DEBUG": None, "NCCL_IB_TIMEOUT": 22}),
    ("container_toolkit_registry_mirrors", {"docker.io": "registry.lab:5000", "nvcr.io": "registry.lab"}),
    ("slurm_settings", {"MaxJobCount": 500, "MailProg": '"/usr/bin/mail -s x"', "TaskPlugin": "task/cgroup,a=b"}),
    ("nvidia_driver_module_options.nvidia", {"NVreg_A": 0, "NVreg_B": "a b"}),
    ("conda_environments.replace", {"-e .": None}),
    ("gpu_settings_values", {"power_limit_watts": 300, "mig_instances": ["3g.40gb"], "ecc": None}),
    ("gpu_settings_per_gpu", {"0": {"ecc": False}}),
    ("verify_profile", {"pcie_width": 8, "power_limit_watts": 250, "floors": {"memory_gbs": None, "peer_gbs": 1.5}}),
]


@pytest.mark.parametrize(("place", "value"), VALUES)
def test_a_mappings_value_of_the_right_type_passes(place, value):
    said = check_variables(**inventory(PLACES[place], value))
    assert [message for message in said if "I005" in message or "I007" in message or "P05" in message] == []


@pytest.mark.parametrize("place", [place for place in TEXTS if forms.OPTIONS[place].secret])
def test_no_message_shows_what_may_be_a_secret(place):
    form = forms.OPTIONS[place]
    for text in ("https://user:can ary@host", "can\nary", "-can ary", "canary" * 500, "ca'n\tary\""):
        if form in (forms.REQUIREMENT, forms.FETCHED) and " " in text:
            continue  # a package and a file's name may have blanks, and are shown
        said = check_variables(**inventory(PLACES[place], text))
        assert said, text
        assert not any("canary" in message or "ary" in message for message in said), said


@pytest.mark.parametrize("place", [place for place in TEXTS if forms.OPTIONS[place].elsewhere])
def test_a_password_where_it_would_become_public_is_refused_with_another_way(place):
    address = (
        "a @ https://user:canary@host/a" if forms.OPTIONS[place] is forms.REQUIREMENT else "https://user:canary@h/a"
    )
    message = check_variables(**inventory(PLACES[place], address))[0]
    assert message.startswith("GPULAB-I031 node1: ")
    assert f"Remedy: {forms.OPTIONS[place].elsewhere}." in message
    assert "canary" not in message
    assert "GPULAB-I031" not in refusals(place, address.replace(":canary", ""))


@pytest.mark.parametrize("password", ["it's", 'say"it"', "a'b\"c", "p%22q", "a\\b", "$(id)", "`id`", "a;b", "ä"])
def test_a_proxys_password_may_hold_any_mark(password):
    assert check_variables(base_http_proxy=f"http://user:{password}@proxy.example:3128") == []
