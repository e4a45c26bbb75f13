"""Names what a look lacks where no tool shows Python frames.

The collector says it, and reports ask for it.
"""

from __future__ import annotations

PYTHON_STACKS = "Python stacks"
"""What is missing on a node without py-spy."""
