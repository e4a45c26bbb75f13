"""Reads what a hung distributed PyTorch job left behind and names the rank at fault.

``import nccldoctor as nd; incident = nd.analyze("logs/")`` gives the same result as the command
``nccldoctor analyze logs/``. The public names are loaded when they are first used, so that
``import nccldoctor`` costs next to nothing. The logger ``nccldoctor`` reports at level DEBUG what each stage read and
found; without a handler of yours it is silent.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what a job must load for itself is not loaded here: typing, importlib
if TYPE_CHECKING:
    from nccldoctor.cli.demo import demo
    from nccldoctor.history.comparison import Comparison, compare
    from nccldoctor.history.saved_report import SavedReport, load
    from nccldoctor.incident import Incident
    from nccldoctor.model import Diagnosis, Evidence, Finding, RemedyAdvice
    from nccldoctor.model.ranks import Ranks
    from nccldoctor.parts.in_memory import reduce
    from nccldoctor.pipeline import analyze, merge
    from nccldoctor.version import __version__

_HOMES = {
    "analyze": "nccldoctor.pipeline",
    "compare": "nccldoctor.history.comparison",
    "demo": "nccldoctor.cli.demo",
    "load": "nccldoctor.history.saved_report",
    "merge": "nccldoctor.pipeline",
    "reduce": "nccldoctor.parts.in_memory",
    "Comparison": "nccldoctor.history.comparison",
    "SavedReport": "nccldoctor.history.saved_report",
    "Incident": "nccldoctor.incident",
    "Diagnosis": "nccldoctor.model",
    "Evidence": "nccldoctor.model",
    "Finding": "nccldoctor.model",
    "RemedyAdvice": "nccldoctor.model",
    "Ranks": "nccldoctor.model.ranks",
    "__version__": "nccldoctor.version",
}

__all__ = [
    "Comparison",
    "Diagnosis",
    "Evidence",
    "Finding",
    "Incident",
    "Ranks",
    "RemedyAdvice",
    "SavedReport",
    "__version__",
    "analyze",
    "compare",
    "demo",
    "load",
    "merge",
    "reduce",
]


def __getattr__(name: str) -> object:
    """Load a public name from its home on first use."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, also those not loaded yet, and nothing else."""
    return sorted(__all__)
