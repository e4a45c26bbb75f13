"""Dataclasses that cost little to declare: a run declares three hundred, and makes instances of a third of them.

The standard library writes up to ten methods for each class and compiles each; together that takes longer than importing
numpy. Here the methods that have to be fast are compiled when they are called, ``__init__`` when it is called often, and all classes
share the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Never, TypeVar

__all__ = ["dataclass", "replace"]

_C = TypeVar("_C", bound=type[Any])

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:

    def dataclass(*, frozen: bool = False, order: bool = False, eq: bool = True, **options: Any) -> Callable[[_C], _C]:
        """The decorator of the standard library: the same fields, and instances that behave alike."""

        def declare(cls: _C) -> _C:
            made = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
            compiled: dict[str, _Source] = {}
            if eq:
                compiled |= {"__eq__": _comparison("__eq__", "=="), "__hash__": _hash}
            if order:
                compiled |= {name: _comparison(name, sign) for name, sign in _ORDER.items()}
            methods = {name: _when_called(made, name, source) for name, source in compiled.items()}
            methods["__init__"] = _when_often_called(made)
            methods |= _SHARED | (_FROZEN if frozen else {"__hash__": None} if eq else {})
            for name, method in methods.items():
                if vars(made).get(name) is None:
                    setattr(made, name, method)
            return made

        return declare

    def replace(instance: Any, /, **changes: Any) -> Any:
        """A copy with other values of some fields, in a fifth of the time that the standard library takes.

        Raises :class:`AttributeError` for a name that is no field.
        """
        return _copier(instance.__class__)(instance, changes)


class _Signature:
    """What ``help`` and notebooks show of a class: its fields, whose types and defaults are looked up when somebody asks."""

    def __get__(self, _instance: object, cls: type[Any]) -> Any:
        from inspect import Parameter, Signature

        shown = (
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY if field.kw_only else Parameter.POSITIONAL_OR_KEYWORD,
                default=_shown_default(field, Parameter.empty),
                annotation=field.type,
            )
            for field in fields(cls)
            if field.init
        )
        return Signature(sorted(shown, key=lambda parameter: parameter.kind), return_annotation=None)


def _shown_default(field: dataclasses.Field[Any], none: object) -> object:
    if field.default is not MISSING:
        return field.default
    return none if field.default_factory is MISSING else _FACTORY


class _Factory:
    """Stands for a default that is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


_Source = Callable[[Any, dict[str, Any]], str]
"""Gives the text of a method of a class, and fills the names in it."""


def _when_called(cls: Any, name: str, source: _Source) -> Callable[..., Any]:
    """A method that puts the compiled one in its own place."""

    def method(self: Any, /, *values: Any, **named: Any) -> Any:
        scope: dict[str, Any] = {}
        exec(source(cls, scope), scope)
        compiled = scope[name]
        compiled.__qualname__ = f"{cls.__qualname__}.{name}"
        setattr(cls, name, compiled)
        return compiled(self, *values, **named)

    return method


_RARE = 8
"""Instances that are made without compiled code: of most classes a run makes fewer."""


def _when_often_called(cls: Any) -> Callable[..., Any]:
    """An ``__init__`` that sets field by field at first, and compiles itself for a class of many instances."""
    compiled, made = _when_called(cls, "__init__", _init), 0

    def method(self: Any, /, *values: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        if made > _RARE or not _are_set(cls, self, values, named):
            compiled(self, *values, **named)
        elif hasattr(cls, "__post_init__"):
            self.__post_init__()

    return method


def _are_set(cls: Any, instance: Any, values: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Set the fields one by one; false where the arguments do not fit them, which the compiled code words."""
    own = fields(cls)
    by_place = [field.name for field in own if field.init and not field.kw_only]
    given = dict(zip(by_place, values, strict=False)) | named
    if len(given) < len(values) + len(named):
        return False
    for field in own:
        if field.init and field.name in given:
            value = given.pop(field.name)
        elif field.default_factory is not MISSING:
            value = field.default_factory()
        elif field.default is not MISSING:
            value = field.default
        elif field.init:
            return False
        else:
            continue  # ``__post_init__`` sets it
        object.__setattr__(instance, field.name, value)
    return not given


def _thawed(cls: Any) -> Any:
    """A class of the same layout whose instances can be changed."""
    changeable = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(cls.__name__, (cls,), {"__slots__": (), **changeable})


def _init(cls: Any, scope: dict[str, Any]) -> str:
    """Sets the fields in order, while a frozen instance is of its class's thawed twin.

    That takes a third of the time of ``object.__setattr__`` for each field.
    """
    is_frozen = cls.__setattr__ is __setattr__
    scope |= {"_set": object.__setattr__, "_missing": MISSING, "_thawed": _thawed(cls) if is_frozen else None}
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
        lines.append(f" self.{name} = {value}\n")
    if is_frozen:
        lines = [" _own = self.__class__\n", " _set(self, '__class__', _thawed)\n", *lines, " self.__class__ = _own\n"]
    lines.append(" self.__post_init__()\n" if hasattr(cls, "__post_init__") else " pass\n")
    parameters = ", ".join(by_place + (by_name if len(by_name) > 1 else []))
    return f"def __init__({parameters}):\n{''.join(lines)}"


@cache
def _copier(cls: Any) -> Callable[[Any, dict[str, Any]], Any]:
    """A function that copies an instance field by field and sets some to other values."""
    if hasattr(cls, "__post_init__") or not all(field.init for field in fields(cls)):
        return lambda instance, changes: dataclasses.replace(instance, **changes)
    is_frozen = cls.__setattr__ is __setattr__
    scope: dict[str, Any] = {"_new": object.__new__, "_made": _thawed(cls) if is_frozen else cls, "_own": cls}
    copied = "".join(f" copy.{field.name} = self.{field.name}\n" for field in fields(cls))
    changed = " for name, value in changes.items():\n  setattr(copy, name, value)\n"
    exec(
        f"def copied(self, changes):\n copy = _new(_made)\n{copied}{changed} copy.__class__ = _own\n return copy", scope
    )
    copier: Callable[[Any, dict[str, Any]], Any] = scope["copied"]
    return copier


def _comparison(name: str, sign: str) -> _Source:
    def source(cls: Any, scope: dict[str, Any]) -> str:
        compared = f"{_compared(cls, 'self')} {sign} {_compared(cls, 'other')}"
        return f"def {name}(self, other):\n return {compared} if other.__class__ is self.__class__ else NotImplemented"

    return source


def _hash(cls: Any, scope: dict[str, Any]) -> str:
    return f"def __hash__(self):\n return hash({_compared(cls, 'self')})"


def _compared(cls: Any, instance: str) -> str:
    """A tuple of the values that are compared."""
    return f"({''.join(f'{instance}.{field.name}, ' for field in fields(cls) if field.compare)})"


_ORDER = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


@recursive_repr()
def __repr__(self: Any) -> str:  # noqa: N807
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


_SHARED = {"__repr__": __repr__, "__signature__": _Signature()}


def __setattr__(self: Any, name: str, value: object) -> Never:  # noqa: N807
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def __delattr__(self: Any, name: str) -> Never:  # noqa: N807
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def __getstate__(self: Any) -> list[Any]:  # noqa: N807
    return [getattr(self, field.name) for field in fields(self)]


def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_FROZEN = {
    "__setattr__": __setattr__,
    "__delattr__": __delattr__,
    "__getstate__": __getstate__,
    "__setstate__": __setstate__,
}
