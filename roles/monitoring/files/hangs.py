"""Tell whose job of torchrun hangs, by the two numbers of minutes named: the program of gpulab-hangs.service."""

import sys

from ansible_collections.gpulab.node.plugins.module_utils.watch import alone

alone.main(sys.argv[1:])
