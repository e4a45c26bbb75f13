"""The kernel log, NVIDIA's driver, and the tools that show the state of GPUs and ports."""
