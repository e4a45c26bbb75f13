"""The conditions of remedies: named questions about a finding, answered from the case.

Every module of this folder is imported here, so that a predicate is known by standing in the folder. A package that
brings remedies of its own may bring predicates, too: they register when the module of its entry point is imported.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from nccldoctor.prescribe.conditions.base import PREDICATES, Context, Predicate, ask
from nccldoctor.prescribe.conditions.survey import Survey
from nccldoctor.questions.answers import Answer, Met, NotCheckable, Unmet

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["PREDICATES", "Answer", "Context", "Met", "NotCheckable", "Predicate", "Survey", "Unmet", "ask"]
