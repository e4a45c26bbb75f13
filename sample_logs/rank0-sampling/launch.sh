#!/bin/bash
torchrun --nproc_per_node=4 train_distillation.py \
    --student_config "config/student_config.json" \
    --data_path "data/static_prompts.txt" \
    --output_dir "./outputs/t2i" \
    --distributed \
    --save_samples
