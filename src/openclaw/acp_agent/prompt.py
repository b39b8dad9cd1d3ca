"""A client's prompt: its words as one text, its media and resources checked, stored and read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import anyio.to_thread
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from openclaw.acp_agent.blocks import ContentBlock
from openclaw.agent.context import InboundMedia
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.decoding import decode
from openclaw.media.reading import Reader, actual_type
from openclaw.media.signature import HEAD_BYTES, mismatch
from openclaw.media.store import OrderFiles
from openclaw.media.transcription import Transcriber

_NAME_LENGTH = 120


@dataclass(frozen=True, slots=True)
class Received:
    """A prompt as the agent takes it."""

    text: str
    media: tuple[InboundMedia, ...]


async def receive(
    blocks: Sequence[ContentBlock], files: OrderFiles, transcriber: Transcriber
) -> Received:
    """Read a prompt; InvalidRequest names the block that cannot be taken."""
    reader = _Reader(files, Reader(transcriber))
    for index, block in enumerate(blocks):
        await reader.take(block, f"prompt[{index}]")
    text = "".join(reader.words)
    if not text.strip() and not reader.media:
        raise InvalidRequest("is empty", field="prompt")
    return Received(text, tuple(reader.media))


@dataclass(slots=True)
class _Reader:
    files: OrderFiles
    reader: Reader
    words: list[str] = field(default_factory=list[str])
    media: list[InboundMedia] = field(default_factory=list[InboundMedia])
    mentioned: bool = False  # whether the last words are a mention

    async def take(self, block: ContentBlock, where: str) -> None:
        match block:
            case TextContentBlock():
                self._say(block.text, mention=False)
            case ResourceContentBlock():
                self._mention(block.name or _name_of(block.uri), block.uri)
            case EmbeddedResourceContentBlock():
                await self._resource(block, where)
            case ImageContentBlock():
                name = _name_of(block.uri or "")
                await self._binary(block.data, block.mime_type, kinds.IMAGE_TYPES, name, where)
            case AudioContentBlock():
                await self._binary(block.data, block.mime_type, kinds.AUDIO_TYPES, "", where)

    def _say(self, text: str, *, mention: bool) -> None:
        """Put words behind those that are there; an editor's mentions stand inside a sentence."""
        if not text:
            return
        before = self.words[-1] if self.words else " "
        if not before[-1].isspace() and not text[0].isspace():
            inline = mention or self.mentioned
            self.words.append("" if inline and text[0] in ".,;:!?)" else " " if inline else "\n")
        self.words.append(text)
        self.mentioned = mention

    def _mention(self, name: str, uri: str) -> None:
        self._say(f"[@{name}]({uri})", mention=True)

    async def _resource(self, block: EmbeddedResourceContentBlock, where: str) -> None:
        resource = block.resource
        name = _name_of(resource.uri)
        self._mention(name, resource.uri)
        if isinstance(resource, TextResourceContents):
            # The MIME type of source code is anything; what matters is that it is text.
            data = resource.text.encode("utf-8", "replace")
            await self._keep([data], "text/plain", name)
        else:
            await self._binary(resource.blob, resource.mime_type, None, name, where)

    async def _binary(
        self,
        data: str,
        declared: str | None,
        allowed: Sequence[str] | None,
        name: str,
        where: str,
    ) -> None:
        mime_type = kinds.normalise(declared or "application/octet-stream")
        if allowed is not None and mime_type not in allowed:
            raise InvalidRequest(
                f"{declared!r} is not taken; taken are {', '.join(allowed)}",
                field=f"{where}.mimeType",
            )
        pieces = decode(data, field=f"{where}.data", limit=kinds.MAX_INBOUND_BYTES)
        first = next(pieces)
        if allowed is not None:
            found = mismatch(mime_type, first[:HEAD_BYTES])
            if found is not None:
                raise InvalidRequest(f"is declared as {mime_type}, but is {found}", field=where)
        else:
            mime_type = actual_type(first[:HEAD_BYTES], mime_type, otherwise=mime_type)
        await self._keep(chain((first,), pieces), mime_type, name)

    async def _keep(self, pieces: "chain[bytes] | list[bytes]", mime_type: str, name: str) -> None:
        # Decoding megabytes and writing them would hold up every other session.
        path = await anyio.to_thread.run_sync(self.files.save, pieces, mime_type)
        media = Media(mime_type, path=path, name=name or f"attachment{path.suffix}")
        reading = await self.reader.read(path, mime_type)
        self.media.append(InboundMedia(media, reading.text, reading.note))


def _name_of(uri: str) -> str:
    """The last part of an address, as a name to show. Never used as a path."""
    last = PurePosixPath(unquote(urlsplit(uri).path)).name if uri else ""
    return "".join(char for char in last if char.isprintable())[:_NAME_LENGTH] or uri[:_NAME_LENGTH]
