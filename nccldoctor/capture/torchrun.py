"""``torchrun --logs-specs nccldoctor``: a log for each rank and capture, with nothing else changed.

torchrun loads :class:`TorchrunLogs` by the entry point group ``torchrun.logs_specs``, which PyTorch 2.3 to 2.13 have. Its own class makes
the logs; here their paths get global ranks, and ranks that are Python get the hook (``go_on``). What fails costs one line and that part.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, LogsDest, Std, to_map

from nccldoctor.capture.control import FOLDER, for_hook, warn
from nccldoctor.capture.evidence import attempt_folder
from nccldoctor.capture.identity import identity_of


class TorchrunLogs(DefaultLogsSpecs):  # type: ignore[misc, unused-ignore]  # with torch and without
    """Both streams of each rank in files named by global rank, on the console what was there before, and capture.

    All goes below ``log_dir``, else ``$NCCLDOCTOR_CAPTURE_DIR``, else ``capture``; what PyTorch adds to the arguments is passed on.
    """

    def __init__(
        self, log_dir: str | None = None, redirects: Any = Std.NONE, tee: Any = Std.NONE, **others: Any
    ) -> None:
        self._streams = redirects, tee
        self._top: Path | None = None
        try:
            top = Path(log_dir or os.environ.get(FOLDER) or "capture").absolute()
            super().__init__(str(top), redirects, tee, **others)
            if not top.is_dir() or not os.access(top, os.W_OK):
                raise PermissionError(f"{top} is no folder to write to")
            self._top = top
        except Exception as error:
            _say(f"nothing is captured, and logs are torchrun's own: {error}")
            super().__init__(log_dir, redirects, tee, **others)

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of each local rank; the environments of ranks that are captured are made ready."""
        if self._top is None:
            return super().reify(envs)
        hidden, tee = (to_map(streams, len(envs)) for streams in self._streams)
        self._redirects, self._tee = Std.ALL, {rank: tee[rank] | (Std.ALL & ~hidden[rank]) for rank in tee}
        usual = super().reify(envs)
        try:
            who = {local: identity_of(environment) for local, environment in envs.items()}
            moved = _moved(usual, {local: attempt_folder(self._top, one) / one.stem for local, one in who.items()})
        except Exception as error:
            _say(f"nothing is captured, and logs are named by local rank: {error}")
            return usual
        for local, environment in envs.items():
            environment["TORCHELASTIC_ERROR_FILE"] = moved.error_files[local]
        self._hand_on(envs, sys._getframe(1).f_locals)
        return moved

    def _hand_on(self, envs: dict[int, dict[str, str]], call: Mapping[str, Any]) -> None:
        """Let ranks begin capture that torchrun's ``call`` starts as ``python -u (SCRIPT | -m MODULE)``.

        A wrapper or a function that torch calls would see the variables, and cannot give them back.
        """
        try:
            words = [str(word) for word in (call.get("args") or {0: ()})[0]]
            is_flagless = words[:1] == ["-u"] and (words[1:2] == ["-m"] or words[1][:1] != "-")
            if call.get("entrypoint") != os.environ.get("PYTHON_EXEC", sys.executable) or not is_flagless:
                raise ValueError("torchrun does not start a script of Python here")
            ready = for_hook(os.getpid(), str(self._top))
        except Exception as error:
            _say(f"nothing is captured: {error}; call nccldoctor.capture.start in the script")
            return
        for environment in envs.values():
            environment.update(ready)


def _moved(usual: LogsDest, folders: Mapping[int, Path]) -> LogsDest:
    """``usual`` with each file in the folder of its global rank; logs of an earlier run go to ``.earlier``."""
    changed: dict[str, Any] = {
        name: {local: str(folders[local] / Path(file).name) for local, file in files.items()}
        for name, files in vars(usual).items()
        if isinstance(files, dict)
    }
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder.parent / ".earlier" / folder.name
        for log in [folder / name for name in ("stdout.log", "stderr.log", "error.json") if (folder / name).exists()]:
            aside.mkdir(parents=True, exist_ok=True)
            log.replace(aside / log.name)
    for file in usual.error_files.values():
        with suppress(OSError):
            Path(file).parent.rmdir()  # torch has just made it, for nothing
    return dataclasses.replace(usual, **changed)


def _say(what: str) -> None:
    warn(identity_of(os.environ), [what])
