"""Begins the watch of a rank before its script, and leaves no trace of that.

``nccldoctor.capture`` puts this folder on PYTHONPATH. The variable, the path, and what the watch imports of the standard library are as
Python alone has them when the script begins: a file ``random.py`` beside it is found. The job's own ``sitecustomize`` runs in the end.
"""

import os
import sys

HERE = os.path.dirname(__file__)


def _begin() -> None:
    usual, known = set(sys.modules), set(sys.path_importer_cache)
    try:
        sys.path.insert(0, os.path.abspath(os.path.join(HERE, "..", "..", "..")))
        try:
            import nccldoctor.capture  # noqa: F401  # it imports nothing of the library
        finally:
            del sys.path[0]
        from nccldoctor.capture.control import go_on

        go_on()
    except Exception as error:
        os.write(2, f"nccldoctor.capture nothing is captured: {error!r}\n".encode())
    finally:
        _forget(usual)
        for folder in sys.path_importer_cache.keys() - known:
            del sys.path_importer_cache[folder]


def _forget(usual: set[str]) -> None:
    """Let the job import the standard library for itself; what is built in is the same for all.

    A loaded package keeps its new part as an attribute, for the watch still uses it: ``collections.abc``.
    """
    for name, module in list(sys.modules.items()):
        is_library = hasattr(module, "__file__") and name[0] != "_" and name.partition(".")[0] != "nccldoctor"
        if is_library and name not in usual:
            del sys.modules[name]


sys.path[:] = [folder for folder in sys.path if folder != HERE]
sys.path_importer_cache.pop(HERE, None)
_begin()
del sys.modules[__name__]
__import__(__name__)
