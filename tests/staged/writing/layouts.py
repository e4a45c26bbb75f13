"""Lays the lines and dumps out in files, as the launcher and the collector of the job would."""

from __future__ import annotations

from dataclasses import dataclass, field

from staged.plan import Plan
from staged.play import Played, Scene
from staged.writing import c10d, launchers, script
from staged.writing.calendar import at
from staged.writing.dumps import dump
from staged.writing.stacks import stack

Files = dict[str, str | bytes]


@dataclass
class Kept:
    """What the files hold, rank by rank."""

    logs: set[int] = field(default_factory=set)
    dumps: set[int] = field(default_factory=set)
    stacks: set[int] = field(default_factory=set)
    exits: set[int] = field(default_factory=set)  # the launcher's account names them
    spoke: set[int] = field(default_factory=set)  # a line of theirs is there
    kernel: bool = False
    labelled: bool = True  # every line says, or its file says, whose it is
    cut_at: float | None = None  # nothing later was kept
    damaged: bool = False


def collect(plan: Plan, played: Played, scene: Scene) -> tuple[Files, Kept]:
    """The files of the job, and what they hold."""
    files: Files = {}
    kept = Kept()
    wanted = {"all": "logs+dumps+kernel"}.get(plan.sources, plan.sources).split("+")
    if "logs" in wanted:
        _logs(plan, played, scene, files, kept)
    if "dumps" in wanted:
        _dumps(plan, played, scene, files, kept)
    if "stacks" in wanted or (plan.sources == "all" and scene.ending == "abort" and plan.rng.random() < 0.15):
        _stacks(plan, played, scene, files, kept)
    if scene.kernel and "kernel" in wanted:
        kept.kernel = True
        for host in {host for _, host, _ in scene.kernel}:
            rows = [f"[{at(played.stall + t):%a %b %d %H:%M:%S %Y}] {text}" for t, h, text in scene.kernel if h == host]
            files[f"dmesg/{host}.txt"] = "\n".join(rows) + "\n"
    if not files and "notes" not in wanted:
        _logs(plan, played, scene, files, kept)  # nobody had the time to write a dump
    if "notes" in wanted or plan.rng.random() < 0.2:
        _notes(plan, files)
    return files, kept


def _rank_lines(plan: Plan, played: Played, scene: Scene) -> list[tuple[float, int, str]]:
    more = {"live": 0, "finished": 0}.get(scene.ending, 0)
    if scene.cls == "none" and scene.ending == "live":
        more = 60
    rows = list(script.progress(plan, played, more, scene.pause)) if any(played.works) else []
    for rank in range(plan.world):
        if plan.nccl_info and played.works[rank]:
            rows += [(t, rank, text) for t, text in launchers.communicator(plan, rank)]
        if scene.has_coll_lines:
            rows += [(t, rank, text) for t, text in launchers.calls(plan, played, rank)]
        rows += [(t, rank, text) for t, text in c10d.lines(plan, played, rank)]
        if scene.ending == "finished":
            rows.append((played.end, rank, f"rank {rank}: training finished, all done"))
    for after, rank, text in scene.said:
        if "Traceback" in text and plan.number >= (2, 4):
            text = "\n".join(f"[rank{rank}]: {row}" for row in text.split("\n"))
        rows.append((played.stall + after, rank, text))
    return sorted(rows, key=lambda row: row[0])


def _logs(plan: Plan, played: Played, scene: Scene, files: Files, kept: Kept) -> None:
    rng = plan.rng
    rows = _rank_lines(plan, played, scene)
    own = sorted(launchers.ends(plan, played, scene), key=lambda row: row[0])
    damage = rng.random()
    lost: set[int] = set()
    if damage < 0.08 and scene.told is None and played.first_fire is not None:
        kept.cut_at = played.first_fire + rng.uniform(0.5, 2.0)
        kept.damaged = True
    elif damage < 0.2 and plan.layout == "per_rank" and scene.told is None and scene.ending == "abort":
        lost = set(rng.sample(range(plan.world), rng.randrange(1, max(2, plan.world // 4))))
        kept.damaged = True
    until = kept.cut_at if kept.cut_at is not None else float("inf")
    rows = [row for row in rows if row[0] <= until and row[1] not in lost]
    own = [row for row in own if row[0] <= until]
    kept.logs = set(range(plan.world)) - lost
    marks = {r: (f"task {r}:", f"rank      : {r} (", f" {plan.host(r)}") for r in range(plan.world)}
    kept.exits = {
        r for r, (a, b, c) in marks.items() for *_, x in own if a in x or b in x or ("Node" in x and x.endswith(c))
    }
    kept.spoke = {rank for _, rank, _ in rows}
    whole = plan.launcher == "srun" or len(plan.hosts) == 1  # torchrun tags with the rank inside the host
    kept.labelled = plan.layout == "per_rank" or (plan.layout == "tagged" and whole)
    _LAYOUTS[plan.layout](plan, rows, own, files)


def _per_rank(plan: Plan, rows: list[tuple[float, int, str]], own: list[tuple[float, str, str]], files: Files) -> None:
    style = plan.rng.choice(["logs/rank_{r}.log", "out/worker-{r}.err", "logs/{h}/rank{r}.txt", "job.{r}.out"])
    attempt = plan.launcher == "torchrun" and len(plan.hosts) == 1 and plan.rng.random() < 0.5
    for rank in sorted({rank for _, rank, _ in rows}):
        name = f"run/none_k3p9/attempt_0/{rank}/stderr.log" if attempt else style.format(r=rank, h=plan.host(rank))
        files[name] = "".join(f"{text}\n" for _, r, text in rows if r == rank)
    if own:
        _agents(plan, own, files)


def _agents(plan: Plan, own: list[tuple[float, str, str]], files: Files) -> None:
    if plan.launcher == "srun":
        files["slurm-40112.err"] = "".join(f"{text}\n" for _, _, text in own)
        return
    for host in plan.hosts:
        mine = [text for _, h, text in own if h == host]
        if mine:
            files[f"agent_{host}.log"] = "".join(f"{text}\n" for text in mine)


def _per_host(plan: Plan, rows: list[tuple[float, int, str]], own: list[tuple[float, str, str]], files: Files) -> None:
    for host in plan.hosts:
        mine = [(t, text) for t, r, text in rows if plan.host(r) == host] + [(t, x) for t, h, x in own if h == host]
        mine.sort(key=lambda row: row[0])
        if mine:
            files[f"{host}.log"] = "".join(f"{text}\n" for _, text in mine)


def _merged(plan: Plan, rows: list[tuple[float, int, str]], own: list[tuple[float, str, str]], files: Files) -> None:
    both = sorted([(t, text) for t, _, text in rows] + [(t, text) for t, _, text in own], key=lambda row: row[0])
    files[plan.rng.choice(["train.log", "console.txt", "slurm-40112.out"])] = "".join(f"{x}\n" for _, x in both)


def _tagged(plan: Plan, rows: list[tuple[float, int, str]], own: list[tuple[float, str, str]], files: Files) -> None:
    """One file with a prefix that says whose a line is: srun's task, or torchrun's local rank in a file per host."""
    width = len(str(plan.world - 1))
    if plan.launcher == "srun":
        both = [(t, _with(f"{r:>{width}}: ", text)) for t, r, text in rows] + [(t, text) for t, _, text in own]
        files["slurm-40112.out"] = "".join(f"{text}\n" for _, text in sorted(both, key=lambda row: row[0]))
        return
    for number, host in enumerate(plan.hosts):
        tag = [(t, _with(f"[default{r % plan.per_host}]:", x)) for t, r, x in rows if plan.host(r) == host]
        both = sorted(tag + [(t, x) for t, h, x in own if h == host], key=lambda row: row[0])
        name = "torchrun.log" if len(plan.hosts) == 1 else f"node_{number}_{host}.log"
        head = f"rank offset {number * plan.per_host}, {plan.per_host} processes on {host}\n"
        files[name] = head + "".join(f"{text}\n" for _, text in both)


def _with(tag: str, text: str) -> str:
    return "\n".join(tag + row for row in text.split("\n"))


_LAYOUTS = {"per_rank": _per_rank, "per_host": _per_host, "merged": _merged, "tagged": _tagged}


def _dumps(plan: Plan, played: Played, scene: Scene, files: Files, kept: Kept) -> None:
    rng = plan.rng
    stem = rng.choice(["fr/trace_rank_", "dumps/nccl_trace_rank_", "flight/comm_lib_trace_rank_"])
    asked = scene.ending in ("finished", "live")
    whole = scene.told is not None or scene.ending != "abort"
    lost = set() if whole or rng.random() < 0.8 else set(rng.sample(range(plan.world), max(1, plan.world // 8)))
    for rank, fate in enumerate(played.fates):
        works = played.works[rank]
        when = (works[-1].end or works[-1].created) + 0.001 if asked and works else fate.dump_at
        if when is None or plan.number < (2, 2) or rank in lost or not works:
            continue
        files[f"{stem}{rank}" + (".json" if plan.dump_json and plan.number >= (2, 6) else "")] = dump(
            plan, played, rank, when
        )
        kept.dumps.add(rank)
    kept.damaged |= bool(lost)


def _stacks(plan: Plan, played: Played, scene: Scene, files: Files, kept: Kept) -> None:
    rng, well = plan.rng, scene.cls == "none"
    timed = "stacks/{t}/rank{r}.txt"
    style = timed if well else rng.choice(["stacks-{n}/rank_{r}.txt", timed, "pyspy_{n}/{r}.txt"])
    late = played.stall + min(40.0, (played.first_fire or played.stall + 80) - played.stall - 20)
    begin = played.works[0][-1].created + 2 if well else late
    for number in (1, 2):
        when = begin + 10 * number
        for rank in range(plan.world):
            gone = played.fates[rank].gone_at
            if scene.doing.get(rank) in ("gone", "stopped") or (gone is not None and gone < when):
                continue
            name = style.format(n=number, r=rank, t=f"{at(when):%H-%M-%S}")
            files[name] = stack(plan, played, scene, rank, number if well else None)
            kept.stacks.add(rank)


def _notes(plan: Plan, files: Files) -> None:
    """Files that people leave beside a job. They tell of other jobs, of what could happen, and of what to do."""
    other = plan.rng.randrange(plan.world)
    files["notes.md"] = (
        f"# Friday\n\nLast week rank {other} died with `NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.`\n"
        f"and before that `[Rank {other}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=118, "
        "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.`\n"
    )
    files["alert_rules.yaml"] = (
        "groups:\n  - name: gpu\n    rules:\n      - alert: XidSeen\n"
        f'        expr: count_over_time({{job="kernel"}} |= "NVRM: Xid" [5m]) > 0  # e.g. Xid 79 on rank {other}\n'
    )
    files["main.py"] = (
        "import torch\n\n\ndef fit(model, batches):\n    try:\n        for batch in batches:\n            model(batch)\n"
        "    except RuntimeError:\n        raise ValueError('rank %d: loss is not finite' % rank)\n"
    )
