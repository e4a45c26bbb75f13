"""Gathers on one node what shows why a training job stands; the answer is a tar stream on standard output.

``python3 - --pid all --twice 10 < on_node.py`` is all that a node needs: Python 3.8 and its standard library. Nothing is installed or
written there, with one exception: where a job asks for it by ``TORCH_NCCL_DEBUG_INFO_PIPE_FILE``, a byte in its pipe makes PyTorch
write its own flight recorder dump. No process of the job gets a signal but one that a stack tool left stopped: SIGCONT sets it running.

The stream is an uncompressed tar archive. Files of a rank stand in ``rank-R/``, of a training process without a rank in ``pid-N/``, of
the machine in ``node/``. ``node.json`` comes several times, so that a stream that is cut keeps what came; the last one counts::

    {"version": 1, "tool": "nccldoctor on_node", "host": "gpu-a07", "started": TIME, "ended": TIME or null, "python": "3.8.10",
     "files": [{"path": "rank-3/stack-1.txt", "kind": "stack", "rank": 3, "local_rank": 3, "pid": 4711, "time": TIME, "look": 1}],
     "processes": [{"pid": 4711, "rank": 3, "local_rank": 3, "world_size": 8, "node_rank": 0, "master_addr": "gpu-a07", "gpu": "3",
                    "state": "S", "wchan": "futex_do_wait", "command": "python train.py", "of": null, "looks": [...]}],
     "missing": [{"what": "stack of rank 3 (pid 4711)", "why": "py-spy: Permission Denied; ..."}]}

TIME is ISO 8601 with the offset of the node's clock. A file of a worker of a rank's data loader has the rank and ``"of"``, the pid of
the rank's process. ``"job"`` tells the files of several jobs apart. ``rank`` and ``pid`` are null where a file is of the whole node,
``look`` is 1 or 2 for what was looked at once or twice, ``grown`` the bytes that a log grew by between two looks, and
``lines`` what it had at the first. Secrets are masked in commands, variables, stacks and logs.
"""
