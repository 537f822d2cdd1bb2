"""The pages of the two services: each is sent as one file that needs nothing else."""
