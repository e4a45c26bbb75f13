"""Errors that a user may see. ``cli`` turns them into text; nothing else prints."""

from __future__ import annotations


class NccldoctorError(Exception):
    """Something the user can act on.

    ``message`` says what is wrong and names the file; ``hint`` names the way out;
    ``exit_code`` is what the command ends with.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")  # a notebook shows it below the message


class InputError(NccldoctorError):
    """A path that cannot be used: missing, empty, not permitted."""


class OutputError(NccldoctorError):
    """A report that cannot be written where it was asked for."""


class CatalogueError(NccldoctorError):
    """Remedies that do not fit their schema; the message lists every mistake with file and line."""
