"""The version that reports and captures name."""

import re

from ansible_collections.gpulab.node.plugins.plugin_utils.core.gpulab_version import version


def test_the_version_is_that_of_the_collection():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", version())
