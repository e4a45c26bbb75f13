"""Says who is who: global ranks, hosts, process groups, one clock, and the one job that is diagnosed."""
