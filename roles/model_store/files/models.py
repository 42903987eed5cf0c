"""Read a share of the store of models whole, or list what is in it."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.models import night

sys.exit(night.main(sys.argv[1:]))
