"""Collectives and coordination of other frameworks: Horovod, JAX, HCCL, oneCCL, torchft."""
