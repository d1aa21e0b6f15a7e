"""Run jobs through Slurm's client programs."""
