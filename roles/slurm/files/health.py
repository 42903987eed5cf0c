"""Drain this node where its GPUs are not fit for jobs: the HealthCheckProgram of slurmd."""

from ansible_collections.gpulab.node.plugins.module_utils.slurm_node import programs

programs.main("health")
