"""Leaves evidence while a job trains, for ``nccldoctor analyze`` to read once it hangs.

```python
from nccldoctor import capture

capture.start("/shared/run")  # before the first process group
```

or, without touching the script, ``torchrun … -m nccldoctor.capture --to /shared/run train.py …``.
"""

TYPE_CHECKING = False  # as type checkers know it
if TYPE_CHECKING:
    from nccldoctor.capture.control import finish, phase, start, step

__all__ = ["finish", "phase", "start", "step"]


def __getattr__(name: str) -> object:
    """Load a function when it is first used: ``python -m nccldoctor.capture`` first puts the script's folder aside."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from nccldoctor.capture import control

    return getattr(control, name)
