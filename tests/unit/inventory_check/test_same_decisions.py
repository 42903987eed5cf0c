"""What the check refuses before a node is read is what the plan refuses of the node: one decision, one text."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.node.plugins.module_utils.core.refusal import Refusal
from ansible_collections.gpulab.node.plugins.plugin_utils import catalog, options
from ansible_collections.gpulab.node.plugins.plugin_utils.plan import resolve

from unit.plan.make import TODAY, facts

from .make import check_variables

DEBIAN = {"nvidia_driver_source": "distribution"}


def plan(given):
    return resolve(facts(), options.complete(given), catalog.load(), TODAY)


REFUSED = {
    "P007": {"nvidia_driver_branch": "581"},
    "P012": {"nvidia_driver_branch": "615", "nvidia_driver_kernel_modules": "proprietary"},
    "P015": {"nvidia_driver_branch": "580", "nvidia_driver_version": "595.91.07"},
    "P022": {"cuda_toolkits": ["12.7"]},
    "P023": {**DEBIAN, "nvidia_driver_branch": "535", "cuda_toolkits": ["13.4"]},
    "P026": {"cuda_toolkits": ["12.9"], "cuda_default": "13.0"},
    "P027": {"cuda_toolkits": [], "nccl_version": "2.27.5"},
    "P032": {"gpulab_environments": [{"name": "both", "pytorch": "2.9", "jax": "0.9"}]},
    "P077": {**DEBIAN, "nvidia_driver_branch": "535", "cuda_toolkits": ["13.4"], "cuda_compat": True},
}


@pytest.mark.parametrize("code", REFUSED)
def test_the_check_and_the_plan_refuse_with_the_same_words(code):
    (message,) = check_variables(**REFUSED[code])
    assert message.startswith(f"GPULAB-{code} node1: ")
    with pytest.raises(Refusal) as refused:
        plan(REFUSED[code])
    assert message == str(refused.value).replace(code, f"{code} node1:", 1)


ACCEPTED = {
    "a toolkit that is to go is compared with no driver": {
        **DEBIAN,
        "nvidia_driver_branch": "535",
        "cuda_state": "absent",
        "cuda_toolkits": ["13.0"],
    },
    "a default among toolkits that are to go": {
        "cuda_state": "absent",
        "cuda_toolkits": ["12.9"],
        "cuda_default": "13.0",
    },
    "an unknown toolkit that is to go": {"cuda_state": "absent", "cuda_toolkits": ["12.7"]},
    "the branch of a driver that is to go": {"nvidia_driver_state": "absent", "nvidia_driver_branch": "581"},
    "the version of a driver that is to go": {
        "nvidia_driver_state": "absent",
        "nvidia_driver_branch": "580",
        "nvidia_driver_version": "595.91.07",
    },
    "cuda-compat runs the toolkit": {
        **DEBIAN,
        "nvidia_driver_branch": "535",
        "cuda_toolkits": ["13.0"],
        "cuda_compat": True,
    },
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
def test_what_the_plan_accepts_the_check_does_not_refuse(given):
    plan(given)
    assert check_variables(**given) == []
