#!/bin/bash
# The next run, as proposed after the incident.
export NCCL_DEBUG=INFO  # Detailed logging
export NCCL_DEBUG_SUBSYS=ALL  # All subsystem info
export NCCL_TIMEOUT=3600  # 1-hour timeout for debugging
export NCCL_ASYNC_ERROR_HANDLING=1  # Better error reporting
export NCCL_SOCKET_IFNAME=^docker0,lo  # Exclude problematic interfaces
export NCCL_IB_DISABLE=0  # Enable InfiniBand if available
torchrun --nproc_per_node=4 train_weighted_mlm.py
