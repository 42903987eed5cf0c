"""What the action takes is what its module documents."""

import yaml
from ansible_collections.gpulab.node.plugins.action.verify import ARGUMENTS
from ansible_collections.gpulab.node.plugins.modules.verify import DOCUMENTATION


def test_documented_options_are_the_arguments():
    documented = yaml.safe_load(DOCUMENTATION)["options"]
    told = {name: (option["type"], option.get("choices"), option.get("default")) for name, option in documented.items()}
    assert told == {name: (spec["type"], spec.get("choices"), spec.get("default")) for name, spec in ARGUMENTS.items()}
