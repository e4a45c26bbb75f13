"""Regular expressions that are compiled on first use: the start of the command does not wait for 300 of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, AnyStr, Generic

_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")


class lazy(Generic[AnyStr]):  # noqa: N801 - reads as a function, like property or partial
    r"""A regular expression with the methods of :class:`re.Pattern`, compiled when one of them is used.

    ``_RANK = lazy(r"rank (\d+)")`` costs nothing until ``_RANK.search(text)``; later calls go straight to the compiled
    pattern's own method. Compile a pattern with :func:`re.compile` only where it is needed at every start.
    """

    pattern: AnyStr
    flags: int
    search: Callable[..., re.Match[AnyStr] | None]
    match: Callable[..., re.Match[AnyStr] | None]
    fullmatch: Callable[..., re.Match[AnyStr] | None]
    finditer: Callable[..., Iterator[re.Match[AnyStr]]]
    findall: Callable[..., list[Any]]
    split: Callable[..., list[Any]]
    sub: Callable[..., AnyStr]
    subn: Callable[..., tuple[AnyStr, int]]

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compiles the pattern; its methods become attributes of this object, so that this runs once."""
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        vars(self).update((method, getattr(compiled, method)) for method in _METHODS)
        return vars(self)[name]
