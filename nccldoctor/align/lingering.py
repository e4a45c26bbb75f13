"""Whether a stack shows a process that its own exception did not end.

Example: a KeyError left ``train_step``, and a minute later the main thread is in ``Thread.join``, called by ``shutdown``.
"""

from __future__ import annotations

from nccldoctor.align.stack_activity import is_waiting, split_frame
from nccldoctor.events import ExceptionRaised, Stack


def is_behind_exception(stack: Stack, raised: ExceptionRaised) -> bool:
    """True of a main thread that is in no collective and has left the function which raised the exception.

    A stack with that function, or with an earlier time, is from before the exception.
    """
    is_earlier = stack.time is not None and raised.time is not None and stack.time < raised.time
    if not stack.main or not stack.frames or not raised.frames or is_earlier or is_waiting(stack.frames):
        return False
    return _function_and_file(raised.frame or raised.frames[0]) not in map(_function_and_file, stack.frames)


def _function_and_file(frame: str) -> tuple[str, str]:
    """A function and the name of its file without folders, which py-spy shortens and Python does not."""
    function, file = split_frame(frame)
    return function, file.rpartition("/")[2]
