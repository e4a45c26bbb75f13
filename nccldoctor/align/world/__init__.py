"""What bounds the job: its ranks, each accounted for, and the hosts that run them."""
