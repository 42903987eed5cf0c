"""Look at the GPUs of a job before it starts: the Prolog of slurmd."""

from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import programs

programs.main("prolog")
