"""Files that a tool hands to the person: none leaves with a secret in it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import anyio.to_thread

from openclaw.core.content import Block, Media, Text
from openclaw.core.tools import ToolResult
from openclaw.media.kinds import MAX_OUTBOUND_BYTES
from openclaw.media.outgoing import CLEANED, WITHHELD, Searches, cleaned, read_regular
from openclaw.media.signature import HEAD_BYTES, looks_like_text


async def without_secrets(result: ToolResult, secrets: Searches) -> ToolResult:
    """The result with its files as they may leave; the model and the person are told what was done.

    A text in which a secret stands goes as a copy without it, and the file stays as it is. Any other
    file with a secret in it does not go.
    """
    if not any(_needs_a_look(block) for block in (*result.blocks, *result.outputs)):
        return result
    return await anyio.to_thread.run_sync(_looked_through, result, secrets)


def _needs_a_look(block: Block) -> bool:
    if not isinstance(block, Media):
        return False
    return block.path is not None or looks_like_text((block.data or b"\0")[:HEAD_BYTES])


def _looked_through(result: ToolResult, secrets: Searches) -> ToolResult:
    desk = _Desk(secrets)
    blocks, outputs = tuple(desk.passed(result.blocks)), tuple(desk.passed(result.outputs))
    if not desk.notes:
        return result
    notes = tuple(f"[{note}]" for note in desk.notes.values())
    told = tuple(Text(note) for note in notes)
    aloud = tuple(Text(note, addressed=True) for note in notes)
    if result.outputs and not outputs:
        # What the tool says of handing it over is not so.
        return replace(result, blocks=told, outputs=aloud, is_error=True)
    return replace(result, blocks=(*blocks, *told), outputs=(*outputs, *aloud))


@dataclass(slots=True)
class _Desk:
    """Looks through media, each once, and notes what it did."""

    secrets: Searches
    notes: dict[Media, str] = field(default_factory=dict[Media, str])
    _seen: dict[Media, Media | None] = field(default_factory=dict[Media, Media | None])

    def passed(self, blocks: Iterable[Block]) -> Iterable[Block]:
        for block in blocks:
            if not isinstance(block, Media) or not _needs_a_look(block):
                yield block
                continue
            if block not in self._seen:
                self._seen[block] = self._looked_at(block)
            seen = self._seen[block]
            if seen is not None:
                yield seen

    def _looked_at(self, media: Media) -> Media | None:
        data = media.data
        if media.path is not None:
            data = read_regular(media.path, MAX_OUTBOUND_BYTES)
        if data is None:  # nobody sends it, and whoever tries says why
            return media
        name = media.name or (media.path.name if media.path else media.mime_type)
        clean = cleaned(data, self.secrets)
        if clean is None:
            self.notes[media] = f"'{name}' is withheld: {WITHHELD}"
            return None
        if clean == data:
            return media
        self.notes[media] = f"'{name}' goes as a copy: {CLEANED}"
        return Media(media.mime_type, data=clean, name=name)
