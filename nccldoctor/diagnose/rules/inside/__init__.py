"""Rules about calls that all members entered and that did not finish: a device, a link, or NCCL itself."""
