import base64
import gzip
import os
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from openclaw.media.stored_files import cleaned, read_regular
from openclaw.secrets.redactor import Redactor

SECRET = "sesame-7f3a9c21d4e8"  # not a real one
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def known(*values: str) -> Redactor:
    redactor = Redactor()
    for value in values or (SECRET,):
        redactor.register(value)
    return redactor


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"key: {SECRET}\n", "key: [REDACTED]\n"),
        (f'{{"key": "{SECRET}", "n": 1}}', '{"key": "[REDACTED]", "n": 1}'),
        (f"a,{SECRET},b\r\n", "a,[REDACTED],b\r\n"),
        (f"<k v='{SECRET}'/>", "<k v='[REDACTED]'/>"),
        (f"#!/bin/sh\nexport K={SECRET}\n", "#!/bin/sh\nexport K=[REDACTED]\n"),
        (base64.b64encode(f"x{SECRET}y".encode()).decode(), "eH[REDACTED]h5"),
        (SECRET.encode().hex(), "[REDACTED]"),
        ("sesame-7f3\\\n  a9c21d4e8", "[REDACTED]"),
        (f"%! ü € {SECRET}", "%! ü € [REDACTED]"),
    ],
)
def test_a_text_goes_without_its_secrets_and_is_otherwise_the_same(before: str, after: str) -> None:
    assert cleaned(before.encode(), known()) == after.encode()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_a_text_keeps_its_character_set(encoding: str) -> None:
    before, after = f"Größe: {SECRET}\r\nä\r\n", "Größe: [REDACTED]\r\nä\r\n"
    assert cleaned(before.encode(encoding), known()) == after.encode(encoding)
    assert cleaned(after.encode(encoding), known()) == after.encode(encoding)


def test_bytes_that_are_no_character_stay_as_they_are() -> None:
    assert cleaned(b"a \xff\xfe\xe4 " + SECRET.encode(), known()) == b"a \xff\xfe\xe4 [REDACTED]"


@pytest.mark.parametrize(
    "data",
    [
        PNG + SECRET.encode(),
        PNG + SECRET.encode("utf-16-le"),
        PNG + SECRET.encode("utf-16-be"),
        b"%PDF-1.7\n(" + SECRET.encode() + b") Tj\n",
        SECRET.encode("utf-16-le"),
        b"PK\x03\x04\0\0" + bytes(3_000_000) + SECRET.encode(),
        b"\xff\xfe\0" + SECRET.encode(),
    ],
)
def test_anything_else_with_a_secret_does_not_go(data: bytes) -> None:
    assert cleaned(data, known()) is None


def test_a_secret_that_a_character_set_hides_does_not_go() -> None:
    assert cleaned("pässwörd-123".encode() + b" \xff", known("pässwörd-123")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"", PNG, b"nothing here\n", gzip.compress(b"nothing", mtime=0), "ä".encode("utf-16"),
        b"password = getpass()\ntoken: ghp_" + b"a1B2c3D4e5" * 4,
    ],
)  # fmt: skip
def test_what_holds_no_known_secret_goes_as_it_is(data: bytes) -> None:
    assert cleaned(data, known()) == data


def test_only_a_regular_file_within_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1234")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "a", 4) == b"1234"
    assert read_regular(tmp_path / "a", 3) is None
    assert read_regular(tmp_path / "pipe", 4) is None
    assert read_regular(tmp_path, 4) is None
    assert read_regular(tmp_path / "gone", 4) is None


@pytest.mark.parametrize("unit", ["a line of words\n", " ", "\x1b[31m", "\\n", "s", "sesame-\n"])
def test_the_time_grows_with_the_size_and_no_faster(unit: str) -> None:
    secrets = known(SECRET, "ab1")

    def took(size: int) -> float:
        data = (unit * (size // len(unit))).encode()
        started = time.process_time()
        cleaned(data, secrets)
        return time.process_time() - started

    took(1000)
    assert took(1_600_000) < max(took(200_000), 0.002) * 8 * 4


def used_by_others() -> float:
    """CPU seconds that other threads have used: a busy machine keeps us waiting, but uses none."""
    return time.process_time() - time.thread_time()


async def longest_wait(data: bytes) -> float:
    """The most that a thread did while nobody else got a turn, as a part of all that it did."""
    waits: list[float] = []
    started = used_by_others()
    async with anyio.create_task_group() as tasks:

        async def note() -> None:
            last = used_by_others()
            while True:
                await anyio.lowlevel.checkpoint()
                waits.append((now := used_by_others()) - last)
                last = now

        tasks.start_soon(note)
        assert await anyio.to_thread.run_sync(cleaned, data, known()) == data
        tasks.cancel_scope.cancel()
    return max(waits) / (used_by_others() - started)


async def test_others_get_their_turn_while_a_large_text_is_looked_through() -> None:
    data = b"The quick brown fox jumps over the lazy dog; 12345.\n" * 320_000
    waits: list[float] = []
    while not waits or (waits[-1] >= 0.3 and len(waits) < 5):
        waits.append(await longest_wait(data))
    assert min(waits) < 0.3
