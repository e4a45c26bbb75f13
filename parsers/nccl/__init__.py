"""Lines of NCCL's own log, its transports, its inspector and its proxy."""
