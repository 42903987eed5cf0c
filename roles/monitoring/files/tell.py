"""Tell who holds an idle GPU, by the file of metrics named first: the program of gpulab-idle.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.monitoring import idle

idle.main(sys.argv[1:])
