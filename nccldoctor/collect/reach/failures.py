"""Says in words why a command brought nothing: what it printed last, and what to do about the usual causes."""

from __future__ import annotations

from nccldoctor.collect.reach.way import Command
from nccldoctor.patterns import lazy
from nccldoctor.words.sanitize import line

_CAUSES = (
    (
        lazy(r"python\S{0,20}['\"]?: (?:command )?not found|(?:execve?\(\)|exec)\S{0,3} .{0,40}python.{0,200}(?:No such file|not found)"),
        "no Python there under this name: give its path by --python",
    ),
    (lazy(r"SyntaxError|invalid syntax"), "its Python is older than 3.8: give the path of a newer one by --python"),
    (lazy(r"Host key verification failed"), "unknown host key: connect once by hand, or add it to known_hosts"),
    (lazy(r"Permission denied \("), "ssh needs a key or an agent: nccldoctor asks for no password"),
    (lazy(r"Could not resolve hostname"), "unknown host name"),
    (lazy(r"[Cc]onnection (?:timed out|refused)|No route to host"), "the host is down, or accepts no ssh"),
    (lazy(r"Invalid job id|Job/step already completing"), "the job has ended"),
    (lazy(r"(?:Unable to create step|Requested nodes are busy)"), "Slurm starts no step there"),
    (lazy(r"\(?Forbidden\)?.{0,300}pods/exec|cannot create resource .pods/exec"), "kubectl exec is forbidden: ask for create on pods/exec"),
    (lazy(r"container .{1,80} (?:is not valid|not found)"), "no such container: name one by --container"),
)  # fmt: skip
"""What commands print, and what it means: OpenSSH, ``srun`` of Slurm 20.11 to 25.05, ``kubectl``, shells and Python."""


def failure_words(command: Command, code: int, errors: str) -> str:
    """Why ``command`` failed, in one line: the cause where it is known, and the last line that it printed."""
    last = next((text for text in reversed(errors.splitlines()) if text.strip()), "")
    said = line(last, 200) or f"{command[0]} ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"
    cause = next((words for pattern, words in _CAUSES if pattern.search(errors)), "")
    return f"{cause} ({said})" if cause else said
