"""Attachments in files: private, bounded, and never outside of their directory."""

import os
from pathlib import Path

from openclaw.media.stored_files import AttachmentFiles, digest_of


def test_what_is_kept_is_private_and_named_by_its_content(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path / "media")
    digest = files.keep("s1", b"x")
    assert digest == digest_of(b"x")
    path = tmp_path / "media" / "s1" / digest
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert files.read("s1", digest) == b"x"
    files.delete("s1")
    assert files.read("s1", digest) is None


def test_all_sessions_together_are_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    files = AttachmentFiles(tmp_path, all_bytes=15)
    old = files.keep("s1", b"a" * 10)
    os.utime(tmp_path / "s1" / old, (1, 1))
    files._unseen = 1 << 40
    new = files.keep("s2", b"b" * 10)
    assert files.read("s1", old) is None
    assert files.read("s2", new) == b"b" * 10


def test_a_name_that_is_no_digest_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    assert AttachmentFiles(tmp_path / "media").read("s", "../../secret") is None
