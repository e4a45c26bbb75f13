"""What single frames say: rows of function, file and words, read by ``frames.py``.

Functions and files are those of pytorch 2.0 to 2.13, CPython 3.8 to 3.14, NCCL 2.4 to 2.32, and of common libraries.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A kind of frame: patterns of its function (whole, without class), patterns of its file (anywhere in it), and
    what they say.

    Patterns stand between blanks, any of them will do; no file means any. ``{}`` in ``words`` is the function.
    """

    words: str
    functions: str
    files: str = ""


_COLLECTIVES = (
    "_?i?all_reduce\\w* _?all_?gather\\w* _?broadcast\\w* _?reduce\\w* _?scatter\\w* _?gather\\w* all_to_all\\w*"
    " barrier monitored_barrier i?send\\w* i?recv\\w* batch_isend_irecv _coalescing_manager wait_tensor wait"
)

WAITING: tuple[Row, ...] = (
    Row(
        "waits for a peer at the store",
        "_store_based_barrier rendezvous _\\w+_rendezvous_handler _create_c10d_store next_rendezvous",
        "torch/distributed",
    ),
    Row(
        "waits for a peer while a process group is set up",
        "init_process_group new_group new_subgroups\\w* _new_process_group_helper _new_group_with_tag split_group"
        " init_device_mesh _init_process_groups",
        "torch/distributed",
    ),
    Row(
        "waits while its process groups are torn down",
        "_shutdown destroy_process_group _?abort_process_group",
        "torch/distributed",
    ),
    Row(
        "waits for a peer in {}",
        _COLLECTIVES,
        "torch/distributed/(?:distributed_c10d|_functional_collectives|nn/functional|_composable|_?tensor)"
        " torch/distributed/_symmetric_memory",
    ),
    Row(
        "waits for a peer in {}",
        _COLLECTIVES,
        "deepspeed/comm deepspeed/runtime/comm horovod/ p2p_communication colossalai/\\w*comm",
    ),
    Row(
        "waits for a peer in {}",
        "_sync_module_states _sync_params_and_buffers _sync_buffers _sync_module_buffers"
        " _verify_param_shape_across_processes _broadcast_coalesced _(?:distributed|default)_broadcast_coalesced",
        "torch/(?:nn/parallel|distributed)",
    ),
    Row("waits for its GPU", "synchronize query", "torch/(?:cuda|accelerator|xpu|mtia)/ deepspeed/accelerator"),
    Row(
        "waits for its GPU",
        "item tolist _local_scalar_dense\\w* at::native::_local_scalar_dense.*"
        " at::_ops::(?:item|_local_scalar_dense)::.* cu(?:da)?(?:Stream|Event|Device|Ctx)Synchronize\\w*"
        " c10::cuda::CUDAStream::synchronize.* cudaMemcpy\\w*",
        "\\.so \\.cpp \\.h libcu ^\\?$ \\.cu$ kernel torch/",
    ),
    Row(
        "waits for a peer in {}",
        "ncclCommInit\\w* ncclCommSplit\\w* ncclCommFinalize bootstrap\\w+ socketPollConnect ncclSocket\\w+"
        " p?nccl(?:All|Reduce|Broadcast|Bcast|Send|Recv|Group(?:End|Launch)|Enqueue|LaunchKernel)\\w*",
    ),
    Row("waits for a peer at the store", "c10d::(?:TCPStore|PrefixStore|FileStore|HashStore)::.*"),
    Row("waits for a peer in {}", "gloo::.* c10d::.*(?:[wW]ait|barrier|allreduce|broadcast|allgather).*"),
)
"""A thread whose first meaningful frame is one of these waits for others, or for its GPU, which in a hang waits for
others."""

BUSY: tuple[Row, ...] = (
    Row(
        "stands in a debugger",
        "set_trace interaction _?cmdloop breakpoint user_line readline",
        "(?:^|/)(?:pdb|bdb|cmd|ipdb|debugger)\\b IPython pydevd",
    ),
    Row(
        "waits for the data loader",
        "_try_get_data _get_data _next_data _next_index _try_put_index __next__ __iter__ _shutdown_workers _reset",
        "torch/utils/data/",
    ),
    Row(
        "waits for the data loader",
        "(?i:\\w*data_?load\\w*) (?i:(?:get|next|fetch|load|read)_?(?:next_)?batch\\w*) (?i:prefetch\\w*)"
        " (?i:\\w*next_batch\\w*)",
    ),
    Row("reads data", "fetch __getitems?__ collate\\w*"),
    Row(
        "waits for the data loader",
        ".*",
        "(?:^|/)(?:webdataset|petastorm|nvidia/dali|streaming/base|ffcv|torchdata|tensorflow_datasets)/",
    ),
    Row(
        "writes a checkpoint",
        "_?save _legacy_save _write_item write_data async_save _?save_state_dict dcp_save",
        "torch/(?:serialization|distributed/checkpoint)",
    ),
    Row(
        "loads a checkpoint",
        "_?load _legacy_load _?load_state_dict read_data load_file",
        "torch/(?:serialization|distributed/checkpoint) safetensors",
    ),
    Row("writes a checkpoint", "save_file serialize_file", "safetensors"),
    Row(
        "writes a checkpoint",
        "(?i:\\w*save_?(?:checkpoint|ckpt|model|state|pretrained|shard|weights|optimizer)\\w*)"
        " (?i:\\w*(?:write|dump|store)_?(?:checkpoint|ckpt|shard)\\w*) (?i:checkpoint_?save\\w*)"
        " (?i:on_save_checkpoint)",
    ),
    Row(
        "loads a checkpoint",
        "(?i:(?:\\w*_)?(?:load|restore|resume)_?(?:from_)?(?:checkpoint|ckpt|state|weights|shard|model)\\w*)"
        " from_pretrained",
    ),
    Row(
        "compiles",
        "\\w*compile_fx\\w* \\w*_compile \\w*compile_inner \\w*compile_and_call_fx_graph codegen\\w* autotun\\w+"
        " do_bench\\w* benchmark\\w* make_(?:cubin|ptx|llir|ttgir) async_compile _convert_frame\\w* precompile"
        " warm_pool load_by_key_path transform_code_object",
        "torch/_(?:inductor|dynamo|functorch) triton/",
    ),
    Row(
        "compiles",
        "run wait result _worker_compile\\w* compile _init_handles _bench",
        "torch/_inductor/(?:async_compile|codecache|runtime|autotune_process) triton/(?:compiler|runtime|backends)",
    ),
    Row("builds an extension", ".*", "torch/utils/(?:cpp_extension|_cpp_extension_versioner|file_baton)"),
    Row(
        "talks to an experiment tracker",
        ".*",
        "(?:^|/)(?:wandb|mlflow|comet_ml|neptune|clearml|aim|swanlab|trackio)/",
    ),
    Row(
        "waits for a remote server",
        ".*",
        "(?:^|/)(?:boto3|botocore|s3transfer|s3fs|gcsfs|adlfs|google/cloud/storage|huggingface_hub|hf_transfer)/"
        " (?:^|/)(?:fsspec|aiohttp|requests|urllib3|httpx|httpcore)/",
    ),
    Row(
        "waits for a remote server",
        "recv\\w* readinto read _read_status begin getresponse urlopen create_connection getaddrinfo do_handshake",
        "(?:^|/)(?:socket|ssl|http/client|urllib/request)\\.py",
    ),
    Row("waits for a remote server", "(?i:\\w*upload\\w*) (?i:\\w*download\\w*) (?i:push_\\w+)"),
    Row("waits for a file lock", "_?acquire __enter__", "(?:^|/)(?:filelock|portalocker|fasteners)\\b"),
    Row("waits for a file lock", "fcntl_?flock flock lockf"),
    Row(
        "waits for a child process",
        "_?wait _?communicate _try_wait _execute_child check_output check_call call run",
        "(?:^|/)subprocess\\.py",
    ),
    Row(
        "evaluates",
        "(?i:\\w*(?:evaluat\\w*|validat(?:e|ion)\\w*|compute_metrics|eval_\\w+|run_eval\\w*))"
        " (?i:test_step|prediction_step)",
    ),
    Row(
        "generates samples",
        "(?i:\\w*generate\\w*) (?i:\\w*sample_(?:images|video|text)\\w*) (?i:\\w*log_validation) (?i:inference\\w*)",
    ),
    Row(
        "prepares data",
        "(?i:map|_map_single|tokenize\\w*|preprocess\\w*|load_dataset|_prepare_split\\w*|download_and_prepare)"
        " (?i:build_(?:dataset|index)\\w*|_build_\\w*index\\w*)",
    ),
    Row("collects garbage", "_PyGC_Collect gc_collect\\w* collect", "^$ python gc"),
    Row("collects garbage", "(?i:\\w*garbage\\w*)"),
    Row(
        "is inside the driver ({})",
        "cu(?:da)?(?:EventDestroy|Free|Malloc|HostAlloc|HostRegister|Mem(?:Unmap|Map|Create|Release))\\w*"
        " cu(?:da)?(?:LibraryLoadData|ModuleLoad|KernelSetAttribute|KernelGetFunction|LaunchKernel)\\w*",
    ),
    Row("frees memory of its GPU", "empty_cache memory_stats mem_get_info", "torch/(?:cuda|accelerator)/"),
    Row("writes a file", "(?:__)?fsync fdatasync pwrite\\w* nfs_\\w+"),
    Row("sleeps", "(?i:\\w*sleep\\w*)"),
    Row(
        "is shutting down",
        "_shutdown _exit_function _run_exitfuncs _python_exit",
        "(?:^|/)(?:threading|multiprocessing/util|concurrent/futures/\\w+|atexit)",
    ),
    Row("waits for a thread of its own", "join _wait_for_tstate_lock", "(?:^|/)threading\\.py"),
    Row("waits for a child process", "join wait poll", "(?:^|/)multiprocessing/"),
    Row("runs the backward pass", "_?(?:engine_)?run_backward backward", "torch/autograd/ torch/_tensor\\.py"),
    Row("runs the optimizer", "step _(?:single|multi)_tensor_\\w+ _fused_\\w+", "torch/optim/"),
)
"""Other things a thread may be found at; the innermost frame that fits one of these names it."""

NEUTRAL: tuple[Row, ...] = (
    Row(
        "a wrapper",
        "wrapper inner wrapped_fn log_wrapper decorate_context _fn __call__ _call_impl _wrapped_call_impl _call_wrapper"
        " compile_wrapper nonrecursive_disable_wrapper __torch_function__ __exit__ __enter__ apply"
        " _call_with_frames_removed",
        "torch/ deepspeed/ contextlib\\.py functools\\.py nvtx <frozen triton/",
    ),
    Row(
        "a lock or a queue of Python",
        "_?wait wait_for acquire _acquire_restore __enter__ get put _?recv _?recv_bytes _?poll select result",
        "(?:^|/)(?:threading|queue|selectors|concurrent/futures/_base)\\.py"
        " (?:^|/)multiprocessing/(?:connection|queues|synchronize|popen_fork|popen_spawn_posix)\\.py",
    ),
    Row(
        "a call of the system",
        "_*(?:GI_)*_*(?:p?poll|select|epoll_wait|syscall|sched_yield|read|write|recv\\w*|send\\w*|accept\\w*|connect)(?:@.*)?"
        " _*(?:GI_)*_*(?:waitpid|wait4|clone\\w*|start_thread|ioctl|open64|openat)(?:@.*)?"
        " _*(?:GI_)*_*(?:pthread_cond_\\w*wait|pthread_mutex_lock|pthread_join|lll_lock_wait)\\w*(?:@.*)?"
        " _*(?:futex|do_futex_wait|sem_wait|sem_timedwait)\\w*(?:@.*)?",
        "\\.so ^\\?$ \\.c$ \\.S$ libc kernel",
    ),
    Row("an address without a name", "0x[0-9a-fA-F]+"),
    Row(
        "C++ and the interpreter",
        "std::.* c10::.* torch::autograd::.* at::_ops::.* pybind11::.* PyObject_.* _?Py\\w+ take_gil new_threadstate",
        "\\.so \\.cpp \\.h \\.c$ ^\\?$ python",
    ),
)
"""Frames that say nothing alone and are passed over."""
