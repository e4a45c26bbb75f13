"""Leaves evidence while a job trains, for ``nccldoctor analyze`` to read once it hangs.

```python
from nccldoctor import capture

capture.start("/shared/run")  # before the first process group
```

or, without touching the script, ``torchrun … -m nccldoctor.capture --to /shared/run train.py …``.
"""

from nccldoctor.capture.control import finish, phase, start, step

__all__ = ["finish", "phase", "start", "step"]
