"""One answer out of everything that a turn said on its way. Pure."""

from openclaw.core.content import Block, Media, ResourceLink, Text

NO_RESPONSE = "(No response)"


def combine(parts: list[str]) -> str:
    """The parts in order, without those that a later one contains; spacing does not tell them apart."""
    trimmed = [part.replace("\r\n", "\n").strip() for part in parts]
    folded = [" ".join(part.split()) for part in trimmed]
    kept = [
        trimmed[index]
        for index, words in enumerate(folded)
        if words and not any(words in later for later in folded[index + 1 :])
    ]
    return "\n\n".join(kept) or NO_RESPONSE


class Collector:
    """Collects, in order, what block replies, tool results and the final answer contribute."""

    def __init__(self, *, all_tool_text: bool = False) -> None:
        self._all_tool_text = all_tool_text
        self._parts: list[str] = []
        self.media: list[Media] = []

    def add_reply(self, blocks: tuple[Block, ...]) -> None:
        """A block of the answer, or the final one: it is all for the person."""
        for block in blocks:
            if isinstance(block, Text):
                self._parts.append(block.text)
            elif isinstance(block, Media):
                self._add_media(block)

    def add_tool_output(self, outputs: tuple[Block, ...]) -> None:
        """A tool's output: its media, and its text where that is addressed to the person."""
        for block in outputs:
            if isinstance(block, Media):
                self._add_media(block)
            elif isinstance(block, Text) and (block.addressed or self._all_tool_text):
                self._parts.append(block.text)
            elif isinstance(block, ResourceLink) and self._all_tool_text:
                self._parts.append(f"{block.name}: {block.uri}")

    def _add_media(self, media: Media) -> None:
        if media not in self.media:
            self.media.append(media)

    def text(self) -> str:
        """The one text of the answer."""
        return combine(self._parts)
