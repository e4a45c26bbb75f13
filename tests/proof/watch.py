"""Watches a Python process by an audit hook: which foreign code runs in it, and which requests leave it.

This text is also run by processes that have no other module of the tests: the command itself, as their ``sitecustomize.py``, and the
child that reads dumps, in front of what it runs. So it imports ``os`` and ``sys`` alone.
"""

from __future__ import annotations

import os
import sys

STARTS = ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn", "webbrowser.open")
"""Events by which a process starts another one, but for ``subprocess.Popen``, by which the reader of dumps is started."""

REQUESTS = ("socket.", "urllib.", "http.", "ftplib.", "smtplib.", "poplib.", "imaplib.", "telnetlib.")
"""Beginnings of events that a process raises when it speaks with another machine."""

READER = ("-E", "-S", "-P", "-c")
"""The options by which the reader of dumps is told from any other process."""


def watch(log: str, text: str, trusted: tuple[str, ...], ours: tuple[str, ...]) -> None:
    """Write a line to ``log`` for each event that no input may cause.

    ``text`` is the source of this module, which goes to the reader of dumps, too. Code from files below ``trusted`` may run.
    No module below ``ours`` may make code of a text but the one that declares dataclasses; libraries do, for their classes.
    """

    def tell(kind: str, event: str, said: object) -> None:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{kind} {event} {said!r}"[:400].replace("\n", " ").encode("utf-8", "replace") + b"\n")
        os.close(descriptor)

    def on_event(event: str, arguments: tuple[object, ...]) -> None:
        if event == "exec":
            name = getattr(arguments[0], "co_filename", "")
            caller = sys._getframe(0).f_back  # none for what the interpreter was started with
            maker = caller.f_code.co_filename if caller is not None else ""
            is_made = name.startswith("<") and (not maker.startswith(ours) or maker.endswith("/dataclass.py"))
            if not is_made and not name.startswith(("<frozen ", *trusted)):
                tell("code", event, name)
        elif event == "import" and isinstance(arguments[1], str) and not arguments[1].startswith(trusted):
            tell("code", event, arguments[:2])
        elif event == "pickle.find_class" or event in STARTS:
            tell("code", event, arguments)
        elif event == "subprocess.Popen":
            command = arguments[1]
            if not isinstance(command, list) or tuple(command[1:5]) != READER:
                tell("code", event, command)
            else:  # the list is the one that the process is started with
                command[5] = f"{text}\nwatch({log!r}, {text!r}, {trusted!r}, {ours!r})\n{command[5]}"
        elif event.startswith(REQUESTS) and event != "socket.gethostname":
            tell("request", event, arguments)

    sys.addaudithook(on_event)
