"""The watch over the jobs of Slurm."""
