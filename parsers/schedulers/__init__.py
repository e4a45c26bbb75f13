"""Lines of Slurm and Kubernetes."""
