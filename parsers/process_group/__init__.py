"""Lines of PyTorch's process groups: watchdog, heartbeat monitor, desync report, store, gloo."""
