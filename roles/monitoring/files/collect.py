"""Read this node's GPUs into the file of metrics named first: the program of gpulab-metrics.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils import gpu_collector

gpu_collector.main(sys.argv[1:])
