"""The bytes of one pickled recorder entry: where its numbers stand, and what entries of a sort share.

Only the opcodes are read that PyTorch and ``pickle`` (protocols 2 and 3) write for dicts, lists, tuples, strings and numbers; an entry with
another one has no layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from nccldoctor.parsers.flight_recorder.entries import DURATION, INTEGERS, KNOWN

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

_WIDTHS = {
    **dict.fromkeys(b"]}()eausN\x85\x86\x87\x88\x89t", 0),
    **dict.fromkeys(b"Khq", 1),
    **dict.fromkeys(b"Jjr", 4),
    **dict.fromkeys(b"M", 2),
    **dict.fromkeys(b"G", 8),
}
"""The opcodes whose operands have one width, in bytes; strings and long integers bring theirs."""

_TEXT, _LONG, _FLOAT = ord("X"), 0x8A, ord("G")
_NUMBERS, _GETS, _PUTS = frozenset(b"KMJG\x8a"), frozenset(b"hj"), frozenset(b"qr")
_SIGNED = frozenset(b"J\x8a")
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_COLUMN_OF = {key: (name, code) for name, (code, key) in INTEGERS.items()}


class _Item(Struct, frozen=True):
    """What an opcode left on the stack: the opcode, its operand, and where that stands."""

    op: int
    at: int = 0
    width: int = 0
    operand: bytes = b""

    @property
    def span(self) -> slice:
        """The bytes of the operand."""
        return slice(self.at, self.at + self.width)

    @property
    def memo_number(self) -> int:
        """The operand of a GET or PUT."""
        return int.from_bytes(self.operand, "little")


_MARK = _Item(ord("("))


class Layout(Struct, frozen=True):
    """How some entries are pickled. Their bytes are held as ``words`` of eight, zeros behind the last.

    An entry has this layout where its words under ``frame_mask`` are ``frame`` and its ``keys`` (memo number, name) are those of its file.
    Two such entries are alike where their words under ``alike_mask`` are equal: they differ in numbers that columns hold, in numbers
    that nobody reads, and in the memo numbers that they give out (``puts``). Under ``fixed_mask`` stands all but those numbers. ``texts``
    are the places of strings, each with that of its memo number.
    """

    frame_mask: Words
    frame: Words
    alike_mask: Words
    fixed_mask: Words
    keys: tuple[tuple[int, str | None], ...]
    integers: _Operands
    floats: tuple[tuple[str, int], ...]
    puts: _Operands
    texts: tuple[tuple[slice, slice], ...]

    def memo_names(self, entry: bytes) -> dict[int, str]:
        """The short strings that an entry puts into the memo, by number."""
        return {int.from_bytes(entry[put], "little"): entry[text].decode("latin-1") for text, put in self.texts}

    def is_of(self, entry: Words, names: Mapping[int, str]) -> bool:
        """True when an entry of the same length has this layout, in a file with these names in its memo."""
        same = ((entry & self.frame_mask) == self.frame).all()
        return bool(same) and all(names.get(number) == name for number, name in self.keys)

    def numbers(self, table: Words) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Each column of numbers by its name, out of the words of several entries, one row for each."""
        yield from zip(self.integers.names, self.integers.values(table), strict=True)
        for name, at in self.floats:
            values = np.ascontiguousarray(table.view(np.uint8)[:, at : at + 8]).view(">f8")[:, 0]
            with np.errstate(invalid="ignore"):
                yield name, np.where(np.abs(values) < 1e30, values, np.nan)


class _Operands(Struct, frozen=True):
    """Where integers stand in an entry.

    ``places`` holds the places of eight bytes for each, zeros beside its own; negative ones need their bytes as the highest of the
    eight, and ``shifts`` brings these down, with the sign.
    """

    names: tuple[str, ...]
    places: Ints
    shifts: Ints

    @classmethod
    def standing(cls, items: Sequence[tuple[str, _Item]], zero: int) -> _Operands:
        """The operands of these items; ``zero`` is the place of a byte that is 0."""
        places = np.full((len(items), 8), zero, dtype=np.int64)
        shifts = np.zeros(len(items), dtype=np.int64)
        for place, shift, (_, item) in zip(places, range(len(items)), items, strict=True):
            first = 8 - item.width if item.op in _SIGNED else 0
            place[first : first + item.width] = np.arange(item.at, item.at + item.width)
            shifts[shift] = 8 * first
        return cls(tuple(name for name, _ in items), places, shifts)

    def values(self, table: Words) -> Ints:
        """The integers of several entries, one row for each integer."""
        wide = np.take(table.view(np.uint8), self.places.ravel(), axis=1).view("<i8")
        return np.ascontiguousarray((wide >> self.shifts).T)


class _Reader:
    """Follows the opcodes of one entry without making anything of them."""

    def __init__(self, entry: bytes) -> None:
        self.entry = entry
        self.stack: list[_Item] = []
        self.fields: list[tuple[_Item, _Item]] = []
        self.operands: list[_Item] = []
        self.texts: list[tuple[_Item, _Item]] = []
        """The strings that the entry puts into the memo, each with its PUT."""

    def is_one_dict(self) -> bool:
        """True when the entry is one dict and nothing else; a new batch of the list may begin behind it."""
        at = 0
        while at < len(self.entry):
            if len(self.stack) == 1 and self.entry[at:] == b"e(":
                break
            item = self._item(at)
            if item is None or not self._can_apply(item):
                return False
            at = item.at + item.width
        return at <= len(self.entry) and len(self.stack) == 1 and self.stack[0].op == ord("}")

    def _item(self, at: int) -> _Item | None:
        op = self.entry[at]
        if op == _TEXT:
            begin, width = at + 5, int.from_bytes(self.entry[at + 1 : at + 5], "little")
        elif op == _LONG:
            begin, width = at + 2, min(self.entry[at + 1 : at + 2] or b"\0")
        else:
            begin, width = at + 1, _WIDTHS.get(op, -1)
        operand = self.entry[begin : begin + max(width, 0)]
        if width < 0 or len(operand) != width or (op == _LONG and not 1 <= width <= 8):
            return None
        return _Item(op, begin, width, operand)

    def _can_apply(self, item: _Item) -> bool:
        """False where the opcode does not fit what is on the stack."""
        op, stack = item.op, self.stack
        if item.width:
            self.operands.append(item)
        if op in _PUTS:
            if not stack or stack[-1] is _MARK:
                return False
            if stack[-1].op == _TEXT:
                self.texts.append((stack[-1], item))
            return True
        if op == ord("("):
            stack.append(_MARK)
        elif op in b"eaus":
            return self._can_fill(op)
        elif op == ord("t") or op in _TUPLES:
            items = self._popped(_TUPLES.get(op))
            if items is None:
                return False
            stack.append(item)
        else:
            stack.append(item)
        return True

    def _can_fill(self, op: int) -> bool:
        """A list or dict takes items from the stack."""
        items = self._popped({ord("a"): 1, ord("s"): 2}.get(op))
        is_dict = op in b"us"
        if items is None or not self.stack or self.stack[-1].op != ord("}" if is_dict else "]"):
            return False
        if is_dict and len(items) % 2:
            return False
        if len(self.stack) == 1:
            self.fields.extend(zip(items[::2], items[1::2], strict=True))
        return True

    def _popped(self, count: int | None) -> list[_Item] | None:
        """So many items off the stack, or all above the mark; None where there are fewer."""
        if count is None:
            place = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is _MARK), -1)
            items, self.stack = self.stack[place + 1 :], self.stack[: max(place, 0)]
            return items if place >= 0 else None
        items = self.stack[-count:]
        if len(items) < count or _MARK in items:
            return None
        del self.stack[-count:]
        return items


def layout_of(entry: bytes, names: Mapping[int, str]) -> Layout | None:
    """The layout of an entry in a file with these names in its memo; None where it is not understood."""
    reader = _Reader(entry)
    if not reader.is_one_dict():
        return None
    keys: list[tuple[int, str | None]] = []
    integers: list[tuple[str, _Item]] = []
    floats: list[tuple[str, int]] = []
    unread: list[_Item] = []
    seen: set[str] = set()
    for key, value in reader.fields:
        if key.op in _GETS:
            keys.append((key.memo_number, names.get(key.memo_number)))
        elif key.op != _TEXT:
            return None
        name = names.get(key.memo_number) if key.op in _GETS else key.operand.decode("latin-1")
        if name is None:
            continue
        if name in seen:
            return None
        seen.add(name)
        if value.op not in _NUMBERS:
            continue
        column, code = _COLUMN_OF.get(name, ("", ""))
        if column and value.op != _FLOAT and (code == "q" or value.op != _LONG):
            integers.append((column, value))
        elif name == DURATION and value.op == _FLOAT:
            floats.append((name, value.at))
        elif name not in KNOWN:
            unread.append(value)
    puts = [("", item) for item in reader.operands if item.op in _PUTS]
    read = [*(item for _, item in integers), *(_Item(_FLOAT, at, 8) for _, at in floats)]
    pickled = np.frombuffer(entry.ljust(8 * words_of(len(entry)), b"\0"), dtype=np.uint64)
    frame_mask = _mask(len(entry), reader.operands, [key for key, _ in reader.fields])
    alike_mask = _mask(len(entry), [*read, *unread, *(item for _, item in puts)], [])
    return Layout(
        frame_mask,
        pickled & frame_mask,
        alike_mask,
        _mask(len(entry), [*read, *unread], []),
        tuple(keys),
        _Operands.standing(integers, len(entry)),
        tuple(floats),
        _Operands.standing(puts, len(entry)),
        tuple((text.span, put.span) for text, put in reader.texts if text.width < 64),
    )


def _mask(length: int, free: Sequence[_Item], fixed: Sequence[_Item]) -> Words:
    """A mask of the bytes of an entry but those of ``free`` operands, unless they are ``fixed`` too."""
    mask = np.zeros(words_of(length) * 8, dtype=np.uint8)
    mask[:length] = 255
    for items, byte in ((free, 0), (fixed, 255)):
        for item in items:
            mask[item.at : item.at + item.width] = byte
    return mask.view(np.uint64)


def words_of(length: int) -> int:
    """The words that hold so many bytes and a zero behind them."""
    return length // 8 + 1


def words_at(data: bytes, starts: Ints, length: int) -> Words:
    """The words of several entries of one length, one row for each.

    None of them is the last entry of the file.
    """
    width = 8 * words_of(length)
    windows = np.ndarray(len(data) - width + 1, f"V{width}", data, strides=(1,))
    table = windows[starts].view(np.uint8).reshape(len(starts), width)
    table[:, length:] = 0
    return table.view(np.uint64)
