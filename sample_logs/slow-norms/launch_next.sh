#!/bin/bash
# The next run, as proposed after the incident.
export NCCL_TIMEOUT=1200000
export WANDB_MODE=offline
torchrun --nproc_per_node=8 train.py --max_grad_norm 1.0
