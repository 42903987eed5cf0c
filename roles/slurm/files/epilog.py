"""Leave nothing of a job on its GPUs: the Epilog of slurmd."""

from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import programs

programs.main("epilog")
