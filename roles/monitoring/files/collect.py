"""Start gpulab's collector of GPU metrics; the files beside this one are the collection's own, unchanged."""

import sys
from pathlib import Path
from types import ModuleType

HERE = str(Path(__file__).parent)
PACKAGE = "ansible_collections.gpulab.node.plugins.module_utils"

# The name by which the files know each other, without the directories of a collection.
for depth in range(1, PACKAGE.count(".") + 2):
    module = ModuleType(".".join(PACKAGE.split(".")[:depth]))
    module.__path__ = [HERE]
    sys.modules[module.__name__] = module

from ansible_collections.gpulab.node.plugins.module_utils import gpu_collector

gpu_collector.main(sys.argv[1:])
