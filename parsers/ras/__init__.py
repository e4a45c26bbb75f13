"""Reports of NCCL's RAS service."""
