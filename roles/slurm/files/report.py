"""Report this node to the controller that is named first: the program of gpulab-watch.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.watch import reports

reports.main(sys.argv[1:])
