"""Dataclasses that cost little to declare: a run declares three hundred, and makes instances of a third of them.

The standard library writes six methods for each frozen class and compiles each; together that takes longer than
importing numpy. Here all classes share those methods, and ``__init__`` is compiled when the first instance is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Never, TypeVar

__all__ = ["dataclass"]

_C = TypeVar("_C", bound=type[Any])

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, order: bool = False, eq: bool = True, **options: Any) -> Callable[[_C], _C]:
        """The decorator of the standard library: the same fields, and instances that behave alike.

        Classes with an order, and those that are not frozen, are left to the standard library.
        """
        if order or not frozen:
            return dataclasses.dataclass(frozen=frozen, order=order, eq=eq, **options)

        def declare(cls: _C) -> _C:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
            for method in (_first_init(made), *_SHARED, *(_comparison(made) if eq else ())):
                if vars(made).get(method.__name__) is None:
                    setattr(made, method.__name__, method)
            return made

        return declare


def _first_init(cls: type[Any]) -> Callable[..., None]:
    """An ``__init__`` that puts the compiled one in its own place."""

    def __init__(self: Any, /, *values: Any, **named: Any) -> None:  # noqa: N807
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *values, **named)

    return __init__


def _compiled_init(cls: type[Any]) -> Callable[..., None]:
    """``__init__`` as the fields ask for it: it sets them in order, past the class's own ``__setattr__``."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    by_place, by_name, lines = ["self"], ["*"], []
    for n, field in enumerate(fields(cls)):
        name = value = field.name
        parameter = name
        if field.default_factory is not MISSING:
            scope[f"_default{n}"] = field.default_factory
            parameter = f"{name}=_missing"
            value = f"_default{n}() if {name} is _missing else {name}" if field.init else f"_default{n}()"
        elif field.default is not MISSING:
            scope[f"_default{n}"] = field.default
            parameter = f"{name}=_default{n}"
            value = name if field.init else f"_default{n}"
        elif not field.init:
            continue  # ``__post_init__`` sets it
        if field.init:
            (by_name if field.kw_only else by_place).append(parameter)
        lines.append(f" _set(self, {name!r}, {value})\n")
    lines.append(" self.__post_init__()\n" if hasattr(cls, "__post_init__") else " pass\n")
    parameters = ", ".join(by_place + (by_name if len(by_name) > 1 else []))
    exec(f"def __init__({parameters}):\n{''.join(lines)}", scope)
    made: Callable[..., None] = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _comparison(cls: type[Any]) -> tuple[Callable[..., Any], ...]:
    """``__eq__`` and ``__hash__`` over the fields that are compared."""
    names = [field.name for field in fields(cls) if field.compare]
    get = attrgetter(*names) if names else lambda _: ()
    values = get if len(names) != 1 else lambda one: (get(one),)

    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __eq__, __hash__


@recursive_repr()
def __repr__(self: Any) -> str:  # noqa: N807
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def __setattr__(self: Any, name: str, value: object) -> Never:  # noqa: N807
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: Any, name: str) -> Never:  # noqa: N807
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: Any) -> list[Any]:  # noqa: N807
    return [getattr(self, field.name) for field in fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_SHARED = (__repr__, __setattr__, __delattr__, __getstate__, __setstate__)
