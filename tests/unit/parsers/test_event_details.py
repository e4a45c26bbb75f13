"""What the text of an event says beyond its fields."""

from nccldoctor.parsers import event_details


def test_counts_at_the_store() -> None:
    barrier = "Timed out in store based barrier on rank 1, key k (world_size=8, worker_count=5, timeout=0:30:00)"
    assert event_details.barrier_counts(barrier) == (8, 5)
    assert event_details.expected_clients("waiting for clients. 5/8 clients joined.") == 8
    assert event_details.barrier_counts("world_size=8") is None and event_details.expected_clients("5/8 joined") is None


def test_memory() -> None:
    text = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)"
    assert event_details.is_gpu_full(text) and not event_details.is_host_full(text)
    assert event_details.requested_memory(text) == "2.00 GiB"
    assert event_details.is_host_full("DefaultCPUAllocator: can't allocate memory: you tried to allocate 80 bytes.")


def test_progress_bars() -> None:
    assert event_details.elapsed_seconds("Map: 18%|# | 3685/20000 [1:00:05<5:12:40, 0.90s/it]") == 3605
    assert event_details.elapsed_seconds("Map: 18%|# | 3685/20000 [10:05<12:40, 0.90s/it]") == 605
    assert event_details.elapsed_seconds("no bar") == 0


def test_schedulers() -> None:
    assert (
        event_details.failed_node("JOB 7 ON n1 CANCELLED DUE TO NODE FAILURE on node-13.cluster") == "node-13.cluster"
    )
    assert event_details.was_evicted_for_node("TaintManagerEviction: deleting pod")
    assert event_details.was_evicted_for_usage("Container c was using 1Gi, which exceeds its request of 0")


def test_lines_of_code() -> None:
    assert event_details.is_call_of_all_ranks("dist.barrier()")
    assert not event_details.is_call_of_all_ranks("dist.barrier(group=tp)") and event_details.has_group(
        "barrier(group=tp)"
    )


def test_set_up() -> None:
    assert event_details.local_rank("starting, local_rank=3") == 3 and event_details.local_rank("rank=3") is None
    assert event_details.is_failed_set_up("Failed to execute operation Connect from rank 3")
    assert event_details.call_sizes("OpType=ALLGATHER, NumelIn=4, NumelOut=32, Timeout") == ("ALLGATHER", 4, 32)


def test_ranks_on_one_gpu() -> None:
    assert event_details.ranks_on_one_gpu("Duplicate GPU detected : rank 6 and rank 4 both on CUDA device 1b000") == (
        6,
        4,
    )
    assert event_details.ranks_on_one_gpu("rank 6 and rank 4 are both on host gpu7") == ()
