"""The answer's text as it is written, piece by piece or as a whole, the same either way."""

import pybase64

from openclaw.agent.context import Reply
from openclaw.core.content import Block, Media, text_of
from openclaw.core.events import BlockReply, Event, TextDelta

_INLINE_BYTES = 2 * 1024 * 1024
_BETWEEN = "\n\n"


class Written:
    """Collects blocks, pieces and the final answer; says what is to be sent next."""

    def __init__(self) -> None:
        self._parts: list[str] = []  # finished blocks
        self._open = ""  # the block that is being written

    def on_event(self, event: Event) -> str:
        """The text to send for this event, which may be none."""
        if isinstance(event, TextDelta):
            return self._add(event.text)
        if isinstance(event, BlockReply):
            return self._close(text_of(event.blocks))
        return ""

    def add_block(self, blocks: tuple[Block, ...]) -> None:
        """A finished block, where pieces are not watched."""
        self._close(text_of(blocks))

    def finish(self, reply: Reply) -> str:
        """What is still to be sent once the answer is there."""
        rest = self._close(reply.text)
        for media in reply.media:
            rest += self._close(_shown(media))
        return rest

    @property
    def text(self) -> str:
        """Everything, as one text."""
        return _BETWEEN.join(part for part in self._parts if part)

    def _add(self, piece: str) -> str:
        lead = _BETWEEN if not self._open and any(self._parts) and piece else ""
        self._open += piece
        return lead + piece

    def _close(self, whole: str) -> str:
        """The block is `whole`: send what of it was not sent yet."""
        sent = self._open
        rest = whole[len(sent) :] if whole.startswith(sent) else ""
        out = self._add(rest) if rest else ""
        self._parts.append(self._open)
        self._open = ""
        return out


def _shown(media: Media) -> str:
    """Something that a tool handed to the person, in Markdown."""
    name = (media.name or media.mime_type).translate(str.maketrans("", "", "[]()\n"))
    if media.data is not None and media.kind == "image" and len(media.data) <= _INLINE_BYTES:
        encoded = pybase64.b64encode_as_string(media.data)
        return f"![{name}](data:{media.mime_type};base64,{encoded})"
    if media.url is not None:
        return f"[{name}]({media.url})"
    where = f" at {media.path}" if media.path is not None else ""
    return f"[{name}: {media.mime_type}{where}]"
