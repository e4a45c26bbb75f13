"""Paths of a process: links lead to places inside its root, and its own rights count."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nccldoctor.collect.on_node.evidence import dumps
from nccldoctor.collect.on_node.inside import open_inside

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def read(pid: int, path: object) -> bytes:
    with os.fdopen(open_inside(pid, str(path), os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read()


def test_links_on_the_way_are_followed_and_the_last_is_not(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "real" / "dump_0").write_bytes(b"dump")
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("real/deep/../../absolute/./")
    (tmp_path / "real" / "dump_1").symlink_to(tmp_path / "real" / "dump_0")
    pid = os.getpid()
    for way in ("real", "absolute", "relative", "relative/deep/..", "./real"):
        assert read(pid, f"{tmp_path}//{way}/dump_0") == b"dump", way
    with pytest.raises(OSError) as refused:
        read(pid, tmp_path / "real" / "dump_1")
    assert refused.value.errno == errno.ELOOP


def test_a_circle_of_links_and_what_is_not_there_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for path, number in (("a/x", errno.ELOOP), ("none/x", errno.ENOENT), ("none", errno.ENOENT)):
        with pytest.raises(OSError) as failed:
            read(os.getpid(), tmp_path / path)
        assert failed.value.errno == number
    with pytest.raises(ProcessLookupError):
        read(2**22 + 1, tmp_path)


def test_no_descriptor_stays_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    before = len([*Path("/proc/self/fd").iterdir()])
    read(os.getpid(), tmp_path / "file")
    with pytest.raises(OSError):
        read(os.getpid(), tmp_path / "none" / "file")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="root can start a process of another user, and in another root"
)


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process of user 65534; its pid."""
    no_groups: list[int] = []
    with subprocess.Popen(
        ["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, user=65534, group=65534, extra_groups=no_groups
    ) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder that every user may search, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@needs_root
def test_root_reads_nothing_for_a_user_who_may_not(top: Path, stranger: int) -> None:
    (top / "open").mkdir(mode=0o755)
    (top / "closed").mkdir(mode=0o700)
    for name, mode in (("open/all_0", 0o644), ("open/own_0", 0o600), ("closed/all_0", 0o644)):
        (top / name).write_bytes(b"x")
        (top / name).chmod(mode)
    assert read(stranger, top / "open/all_0") == b"x"
    for name in ("open/own_0", "closed/all_0"):
        assert read(os.getpid(), top / name) == b"x"
        with pytest.raises(PermissionError):
            read(stranger, top / name)
    told: list[bytes] = []
    dumps._read_dumps(
        stranger, [str(top / "closed/all_0"), str(top / "none_0"), str(top / "open/all_0")], 0.0, told.append
    )
    closed, good = b"".join(told).split(b"\0", 2)[:2], told[-2:]
    assert (closed, good) == (
        [bytes(top / "closed/all_0"), b"its process may not read it"],
        [bytes(top / "open/all_0") + b"\0\0", b"x"],
    )
    os.chown(top / "open/own_0", 65534, 65534)
    assert read(stranger, top / "open/own_0") == b"x"


@pytest.mark.parametrize("device", ["/dev/null", "/dev/stdin"])
def test_a_device_is_not_opened(device: str) -> None:
    with pytest.raises(OSError, match="a link or a device"):
        read(os.getpid(), device)


@needs_root
def test_links_of_a_container_stay_in_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data" / "dump_0").write_bytes(b"inside")
    (root / "link").symlink_to("/data")
    (root / "up").symlink_to("../../../../data")
    script = f"import os, sys; os.chroot({str(root)!r}); os.chdir('/'); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for way in ("data", "link", "up", "../../../data"):
            assert read(process.pid, f"/{way}/dump_0") == b"inside", way
        process.kill()
