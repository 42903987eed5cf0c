"""Look at the jobs, and tell of those that failed: the program of gpulab-watch-judge.service."""

from ansible_collections.gpulab.node.plugins.module_utils.watch import controller

controller.main()
