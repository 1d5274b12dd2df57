"""Building on a Slurm cluster: what is asked of it, what its queue says, and what a job does."""
