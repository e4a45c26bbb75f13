"""A diagnosis for strangers: hosts, users, paths and addresses become stand-ins, each the same one everywhere.

Works on the values before anything is rendered, so that every report of the copy agrees. Secrets are masked in any
report, with or without this (:mod:`nccldoctor.words.secrets`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from nccldoctor.model import Diagnosis, Source
from nccldoctor.model.errors import NccldoctorError
from nccldoctor.model.hosts import short_host
from nccldoctor.patterns import lazy
from nccldoctor.words.secrets import is_secret, masked

KINDS = ("hosts", "users", "paths", "addresses")
"""The kinds of text that can be replaced."""

_T = TypeVar("_T")

_ADDRESSES = lazy(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)"  # IPv4
    r"|(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"  # MAC
    r"|(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4}){1,6}(?![\w:])|(?<![\w:])[0-9a-fA-F]{1,4}::[0-9a-fA-F:]{0,40}(?![\w:])"
)
_CLOCK = lazy(r"\d{1,2}:\d{2}:\d{2}(?::\d{2})?")
_USERS = lazy(
    r"(?:(?<=/home/)|(?<=/Users/)|(?<=[Uu]ser=)|(?<=[Uu]ser )|(?<=USER=)|(?<=uid=))[A-Za-z_][\w.-]{0,63}"
    r"|(?<![\w@/.-])[A-Za-z_][\w.-]{0,63}(?=@(?!\d{1,9}(?![\w.-]))[\w.-]{1,255})"  # not the USR1@300 of Slurm
)
_PATHS = lazy(
    r"(?<![\w/.:~-])~?/(?:[\w.+@%=-]{1,255}/){1,64}(?=[\w.+@%=-])|(?<![\w])[A-Za-z]:\\(?:[\w.+@%= -]{1,255}\\){1,64}"
)
_HOST = lazy(r"(?<![\w./-])[A-Za-z0-9][\w-]{0,62}(?:\.[A-Za-z0-9][\w-]{0,62}){1,8}(?![\w/-])")
_HOST_PLACES = lazy(r"(?:(?<=@)|(?<=://))[A-Za-z][\w-]{0,62}(?:\.[\w-]{1,63}){1,8}")
_PUBLIC = ("pytorch.org", "github.com", "nvidia.com", "huggingface.co", "python.org", "readthedocs.io", "kernel.org")
"""Domains that error messages send their readers to."""

_SUFFIX = lazy(
    r"(?:\.(?:log|out|err|txt|jsonl?|csv|gz|zst|bz2|xz|tar|zip|pkl|bin|stack|stacks|dump|ndjson|toml|ya?ml|py|sh)){1,4}$"
)
_WORD_OF_FILES = lazy(
    r"(?:rank|node|gpu|log|trace|dump|stack|task|step|worker|event|page|attempt|job)s?|cuda|nccl|gloo|fr|flight|recorder|py|py-?spy|spy"
    r"|dmesg|kern|kernel|stderr|stdout|err|out|restart|run|slurm|local|global|pid|launcher|torchrun|elastic|train|training|eval|ras|smi"
    r"|nvidia|env|part|sacct|messages|journal|watchdog|heartbeat|process|proc|host|[vrptx]",
    re.IGNORECASE,
)
"""Words that names of logs are made of."""

_KEPT = lazy(r"(?:site-packages|dist-packages)/.{0,4000}$")


def redacted_with(diagnosis: Diagnosis, source: _T, hosts: Iterable[str], what: Sequence[str]) -> tuple[Diagnosis, _T]:
    """Copies of ``diagnosis`` and of the ``source`` it was made from, with the same stand-ins.

    ``hosts`` are names that only the source holds. Of a path the folders go (but not those inside an installed library), the name of
    the file stays. Raises :class:`~nccldoctor.model.errors.NccldoctorError` for a word that is not in :data:`KINDS`.
    """
    _check(what)
    redactor = _Redactor(diagnosis, source, hosts, frozenset(what))
    return _mapped(diagnosis, redactor), _mapped(source, redactor)


def wanted(words: str) -> tuple[str, ...]:
    """The kinds that ``hosts,users`` names; raises as :func:`redacted_with` does."""
    what = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    _check(what)
    return what


def _check(what: Sequence[str]) -> None:
    wrong = [word for word in what if word not in KINDS]
    if wrong:
        raise NccldoctorError(f"cannot redact {', '.join(wrong)}", hint="choose among " + ", ".join(KINDS))


class _Redactor:
    """Replaces in one text; numbers stand-ins in the order in which the diagnosis names them."""

    def __init__(self, diagnosis: Diagnosis, source: object, more: Iterable[str], what: frozenset[str]) -> None:
        self._what = what
        self._names: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        hosts = _hosts(diagnosis, more) if "hosts" in what else []
        hosts += _written_hosts((diagnosis, source), hosts) if "hosts" in what else []
        # below home folders and before an at sign only users stand
        texts = _texts((diagnosis, source)) if "users" in what else ()
        named = dict.fromkeys(name for text in texts for name in _USERS.findall(text))
        users = [name for name in named if len(name) > 1 and not is_secret(name)]
        self._hosts = _Words(hosts, lambda name: self._stand_in("hosts", "host", name))
        self._users = _Words(users, lambda name: self._stand_in("users", "user", name))

    def __call__(self, text: str) -> str:
        # first: a stand-in must not take the place of the name that marks a secret
        text = masked(text) if self._what else text
        if "paths" in self._what:
            text = _PATHS.sub(self._path, text)
        text = self._hosts(self._users(text))
        if "addresses" in self._what:
            text = _ADDRESSES.sub(self._address, text)
        return text

    def _path(self, match: re.Match[str]) -> str:
        path = match.group()
        kept = _KEPT.search(path)
        head = path[: kept.start()] if kept else path
        return f"/{self._stand_in('paths', 'folder', head)}/" + (kept.group() if kept else "")

    def _address(self, match: re.Match[str]) -> str:
        """A stand-in, but not for a time of day, which looks like the end of an IPv6 address."""
        address = match.group()
        return address if _CLOCK.fullmatch(address) else self._stand_in("addresses", "address", address)

    def _stand_in(self, kind: str, word: str, value: str) -> str:
        known = self._names[kind]
        return known.setdefault(value, f"{word}-{len(known) + 1}")


def _hosts(diagnosis: Diagnosis, more: Iterable[str]) -> list[str]:
    named = [
        *diagnosis.job.hosts,
        *(s.host for s in diagnosis.ranks),
        *(s.host for s in diagnosis.sources),
        *(e.host for e in diagnosis.story),
        *diagnosis.action.cordon,
        *_hosts_of_files(diagnosis.sources),
        *more,
    ]
    full = dict.fromkeys(host for host in named if host)
    short = dict.fromkeys(short_host(host) for host in full)
    return [host for host in {**full, **short} if len(host) > 1 and not _is_of_no_host(host)]


def _is_of_no_host(name: str) -> bool:
    """True of an address, and of the name by which every host calls itself."""
    return _ADDRESSES.fullmatch(name) is not None or short_host(name).lower() == "localhost"


def _hosts_of_files(sources: Iterable[Source]) -> Iterator[str]:
    """Parts of paths that look like a host: ``gpu-secret17`` in ``logs/gpu-secret17.acme.example.log``.

    They hold a number and a word that no name of a log is made of. Rather one name too many than a host that stays.
    """
    for part in {part for source in sources for part in source.path.split("/")}:
        stem = _SUFFIX.sub("", part)
        label = stem.partition(".")[0]
        words = re.findall(r"[A-Za-z]+", label)
        if re.search(r"\d", label) and not all(map(_WORD_OF_FILES.fullmatch, words)):
            yield stem if _HOST.fullmatch(stem) else label


def _written_hosts(source: object, known: Sequence[str]) -> list[str]:
    """Names at places where only hosts stand, and all names in the domains of these and of the known hosts."""
    texts = _texts(source)
    names = dict.fromkeys(found.rstrip(".") for text in texts for found in _HOST_PLACES.findall(text))
    tokens = dict.fromkeys(token for text in texts for token in _HOST.findall(text))
    hosts = [name for name in names if not name.endswith(_PUBLIC) and not _is_of_no_host(name)]
    domains = tuple({"." + ".".join(host.split(".")[-2:]).lower() for host in (*hosts, *known) if "." in host})
    return [*hosts, *(token for token in tokens if token.lower().endswith(domains))]


class _Words:
    """Finds names as whole words, also inside longer ones joined by dots and hyphens: ``gpu-a018`` in ``gpu-a018-ib0``."""

    def __init__(self, names: Sequence[str], stand_in: Callable[[str], str]) -> None:
        self._names = {name.lower() for name in names}
        self._longest = max((len(_parts(name)) for name in names), default=0)
        self._stand_in = stand_in

    def __call__(self, text: str) -> str:
        return _TOKEN.sub(lambda match: self._token(match.group()), text) if self._names else text

    def _token(self, token: str) -> str:
        parts, out, at = _parts(token), "", 0
        while at < len(parts):
            for end in range(min(len(parts), at + self._longest), at, -1):
                name = "".join(parts[at:end])
                if name.lower() in self._names:
                    out += self._stand_in(name.lower())
                    at = end
                    break
            else:
                out += parts[at]
                at += 1
        return out


_TOKEN = lazy(r"[^\W_][\w.-]{0,254}")


def _parts(token: str) -> list[str]:
    """Words and their joints, in turn: ``gpu-7`` is three parts."""
    return re.findall(r"[^\W_]+|[_.-]", token)


def _texts(value: object) -> list[str]:
    """Every text in a value, once."""
    seen: dict[str, str] = {}
    _walk(value, str, seen)
    return list(seen)


def _mapped(value: _T, change: Callable[[str], str]) -> _T:
    """``value`` with every text in it changed; numbers, ranks, times and enumerations stay."""
    return _walk(value, change, {})  # type: ignore[no-any-return]


def _walk(value: Any, change: Callable[[str], str], seen: dict[str, str]) -> Any:
    if isinstance(value, str) and not isinstance(value, Enum):
        if value not in seen:
            seen[value] = change(value)
        return seen[value]
    if isinstance(value, tuple):
        items = type(value)(_walk(item, change, seen) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if isinstance(value, Mapping):
        return {key: _walk(item, change, seen) for key, item in value.items()}
    if isinstance(value, Struct):
        held = asdict(value)
        changed = {name: _walk(item, change, seen) for name, item in held.items()}
        return value if all(changed[n] is held[n] for n in held) else replace(value, **changed)
    return value
