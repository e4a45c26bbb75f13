"""The rules: for each stall the first one that holds decides.

A room holds the rules of a family of causes: ``absent/died.py``, ``inside/network.py``. To add one, write a file in a room with a
docstring (what the class means, how we know, what would refute it) and a function ``judge(facts, stall)`` with the decorator
``@rule(CauseClass.…)``. No list of rules exists: the files are the list. An installed package adds rules of its own with an entry point
of the group ``nccldoctor.rules`` that names their module.
"""

from __future__ import annotations

import logging
import pkgutil
from functools import cache
from importlib import import_module

from nccldoctor.diagnose.registry import RULES, Rule
from nccldoctor.model import CauseClass
from nccldoctor.plugins import entry_points_of

ENTRY_POINTS = "nccldoctor.rules"

_LOG = logging.getLogger("nccldoctor")


@cache
def load() -> tuple[Rule, ...]:
    """All rules in the order of asking: that of :class:`CauseClass`, and within a class those of other packages first."""
    for module in sorted(pkgutil.walk_packages(__path__, f"{__name__}."), key=lambda found: found.name):
        import_module(module.name)
    own = len(RULES)
    for point in entry_points_of(ENTRY_POINTS):
        try:
            point.load()
        except Exception:  # the package of a stranger may fail in any way
            _LOG.warning("the rules of %s = %s are left out", point.name, point.value, exc_info=True)
    order = list(CauseClass)
    return tuple(sorted((*RULES[own:], *RULES[:own]), key=lambda rule: order.index(rule.before)))
