"""What the callback says of a task that failed."""

import pytest
from ansible_collections.gpulab.node.plugins.plugin_utils.progress.explain import message


@pytest.mark.parametrize(("number", "lines"), [(1, 1), (7, 7), (9, 8)])
def test_of_wrong_options_only_what_is_wrong_is_shown(number, lines):
    result = {"argument_errors": [f"value of option_{index} must be one of: a, b, got: c" for index in range(number)]}
    shown = message({**result, "msg": "Validation failed", "argument_spec_data": {"a": {}}}).splitlines()
    assert len(shown) == lines
    assert shown[0] == result["argument_errors"][0]
    assert (shown[-1] == "and 2 more") is (number == 9)
