"""Tell of jobs that failed or hang, with the numbers named: the program of gpulab-watch-judge.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.watch import controller

controller.main(sys.argv[1:])
