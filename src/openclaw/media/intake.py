"""Takes in the files that come with a message, for every front end.

Each file is checked against its limits and type, stored, and read, within one budget of characters
for all. An `InvalidRequest` names the field that is wrong.
"""

import mimetypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path, PurePosixPath
from string import whitespace

import anyio.to_thread
import pybase64

from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.documents import OFFICE, PDF, Extracted, document_text
from openclaw.media.images import BadImage, check_image
from openclaw.media.kinds import HEAD_BYTES, in_mb, looks_like_text, mismatch, sniff
from openclaw.media.stored_files import OrderFiles
from openclaw.media.transcription import Transcriber

_BOMS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_SAMPLE = 64 * 1024  # enough for the character set to show
_TELLING = 8  # fewer letters beyond ASCII than this say nothing about their character set


def decode_text(data: bytes) -> str:
    """The text in these bytes: by their BOM, as UTF-8, or in the likeliest character set."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    encoding = "cp1252"  # the most common, if nothing says otherwise
    if sum(byte > 127 for byte in data[:_SAMPLE]) >= _TELLING:
        from charset_normalizer import from_bytes  # takes 30 ms to import and is rarely needed

        best = from_bytes(data[:_SAMPLE]).best()
        encoding = encoding if best is None else best.encoding
    return data.decode(encoding, "replace")


def read_text(path: Path, budget: int) -> tuple[str, bool]:
    # A character takes four bytes at the most, so this many hold the budget in any character set.
    with path.open("rb") as file:
        data = file.read(budget * 4 + 1)
    text = decode_text(data)
    return text[:budget], len(text) > budget or len(data) > budget * 4


TEXT_BUDGET = 200_000  # characters of all attachments of a message together


def actual_type(head: bytes, declared: str, otherwise: str) -> str:
    """What a file is by its first bytes; `declared` decides between kinds of text."""
    found = sniff(head)
    if found is not None:
        return found
    if looks_like_text(head):
        return declared if declared in kinds.TEXT_TYPES else "text/plain"
    return otherwise


_NAME_LENGTH = 120


class Intake:
    """Takes the attachments of one message. `files` is called once one has to be stored."""

    def __init__(
        self,
        transcriber: Transcriber,
        files: Callable[[], OrderFiles] | None = None,
        budget: int = TEXT_BUDGET,
    ) -> None:
        self._transcriber = transcriber
        self._files = files
        self._budget = budget

    async def store(
        self,
        data: str,
        declared: str,
        allowed: Sequence[str] | None,
        *,
        field: str,
        name: str | None = None,
        of_object: bool = True,
    ) -> Media:
        """Store base64 of this declared type.

        Without `allowed`, any type is accepted. `of_object` says that type and data are separate
        fields.
        """
        mime_type = kinds.normalise(declared)
        if allowed is not None and mime_type not in allowed:
            raise InvalidRequest(
                f"{declared!r} is not supported; supported types: {', '.join(allowed)}",
                field=f"{field}.mimeType" if of_object else field,
            )
        data_field = f"{field}.data" if of_object else field

        def keep() -> Media:
            pieces = decode(data, field=data_field, limit=kinds.MAX_INBOUND_BYTES)
            first = next(pieces)
            head = first[:HEAD_BYTES]
            actual = mime_type
            if allowed is None:
                actual = actual_type(head, mime_type, otherwise=mime_type)
            elif (found := mismatch(mime_type, head)) is not None:
                raise InvalidRequest(
                    f"is declared as {mime_type}, but the content is {found}", field=field
                )
            return self._keep(chain((first,), pieces), actual, field, name)

        # Decoding megabytes and writing them would hold up everybody else.
        return await anyio.to_thread.run_sync(keep)

    async def store_text(self, text: str, *, field: str, name: str | None = None) -> Media:
        data = text.encode("utf-8", "replace")
        return await anyio.to_thread.run_sync(self._keep, [data], "text/plain", field, name)

    async def check_file(self, path: Path, allowed: Sequence[str]) -> Media:
        """A file on this machine, which stays where it is."""
        return await anyio.to_thread.run_sync(_checked_file, path, allowed)

    async def read(self, media: Media) -> InboundMedia:
        assert media.path is not None
        found = await self._read(media.path, media.mime_type, max(self._budget, 0))
        self._budget -= len(found.text or "")
        return InboundMedia(media, *found)

    async def _read(self, path: Path, mime_type: str, room: int) -> Extracted:
        if mime_type in kinds.IMAGE_TYPES:
            return Extracted()
        if mime_type == "application/pdf":
            return await document_text(path, PDF, room)
        if mime_type == "application/zip":  # which Word, Excel and PowerPoint files are
            document = await document_text(path, OFFICE, room)
            if document.text:
                return document
        if mime_type in kinds.AUDIO_TYPES:
            return await self._transcriber.transcribe(path, mime_type)
        if mime_type not in kinds.TEXT_TYPES:
            return Extracted(note="content not extracted")
        if not room:
            return Extracted(note="left out: the other attachments fill the text budget")
        text, cut = await anyio.to_thread.run_sync(read_text, path, room)
        return Extracted(text, f"cut to {room} characters" if cut else None)

    def _keep(self, pieces: Iterable[bytes], mime_type: str, field: str, name: str | None) -> Media:
        assert self._files is not None
        path = self._files().save(pieces, mime_type)
        _check_image(path, mime_type, field)
        return Media(mime_type, path=path, name=display_name(name, path))


def _checked_file(path: Path, allowed: Sequence[str]) -> Media:
    field = str(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InvalidRequest(error.strerror or str(error), field=field) from error
    if size > kinds.MAX_INBOUND_BYTES:
        raise _too_large(size, kinds.MAX_INBOUND_BYTES, field)
    named = kinds.normalise(mimetypes.guess_type(path.name)[0] or "")
    mime_type = actual_type(head, named, otherwise="application/octet-stream")
    if mime_type not in allowed:
        raise InvalidRequest(f"is {mime_type}; supported types: {', '.join(allowed)}", field=field)
    _check_image(path, mime_type, field)
    return Media(mime_type, path=path.absolute(), name=path.name)


def _check_image(path: Path, mime_type: str, field: str) -> None:
    if mime_type in kinds.IMAGE_TYPES:
        try:
            check_image(path.read_bytes())
        except BadImage as bad:
            raise InvalidRequest(f"cannot be shown to a model: {bad}", field=field) from None


def _too_large(size: int, limit: int, field: str) -> InvalidRequest:
    return InvalidRequest(f"is {in_mb(size)}; the limit is {in_mb(limit)}", field=field)


def display_name(given: str | None, path: Path) -> str:
    """A given file name for display: its last part, printable, short. Never used as a path."""
    last = PurePosixPath((given or "").replace("\\", "/")).name
    shown = "".join(char for char in last if char.isprintable()).strip().rstrip(" .")
    return shown[:_NAME_LENGTH] or f"attachment{path.suffix}"


_PIECE = 4 << 20  # characters; a multiple of four, so that pieces decode by themselves
_WHITESPACE = str.maketrans("", "", whitespace)


def decoded_size(data: str) -> int:
    """The most bytes that this can decode to; whitespace makes it less."""
    return len(data) * 3 // 4


def decode(data: str, *, field: str, limit: int) -> Iterator[bytes]:
    """The bytes in pieces; `InvalidRequest` names the field and the problem."""
    if data.startswith("data:"):
        raise InvalidRequest(
            "is a data: URL; give only the base64 that follows its comma", field=field
        )
    if decoded_size(data) > limit * 2:  # far too much even if half of it is whitespace
        raise _too_large(decoded_size(data), limit, field)
    if any(blank in data for blank in whitespace):
        data = data.translate(_WHITESPACE)
    if not data:
        raise InvalidRequest("is empty", field=field)
    if decoded_size(data) - data[-2:].count("=") > limit:
        raise _too_large(decoded_size(data), limit, field)
    try:
        for start in range(0, len(data), _PIECE):
            piece = pybase64.b64decode(data[start : start + _PIECE], validate=True)
            if len(piece) * 4 < _PIECE * 3 and start + _PIECE < len(data):
                raise ValueError("padding before the end")
            yield piece
    except ValueError:
        problem = "is not valid base64 (in the standard alphabet, with its padding)"
        raise InvalidRequest(problem, field=field) from None
