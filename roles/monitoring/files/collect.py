"""Read this node's GPUs into the file of metrics named first: the program of gpulab-metrics.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.monitoring import collector

collector.main(sys.argv[1:])
