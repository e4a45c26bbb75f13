#!/bin/bash
# The next run, as proposed after the incident.
export NCCL_TIMEOUT=300
export NCCL_BLOCKING_WAIT=1
export NCCL_DEBUG=INFO
export TORCH_NCCL_TRACE_BUFFER_SIZE=1000
export NCCL_IB_DISABLE=1
export NCCL_P2P_DISABLE=1
CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=4 strong_baseline.py --config config.yaml --launcher pytorch
