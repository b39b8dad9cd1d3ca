"""Content that travels between people, models, tools and protocols."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Text:
    """Text; if `addressed`, it is meant for the person, not only for the model."""

    text: str
    addressed: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """An image, sound, video, document or archive: exactly one of `data`, `path` and `url` is set."""

    mime_type: str
    data: bytes | None = None
    path: Path | None = None
    url: str | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if sum(source is not None for source in (self.data, self.path, self.url)) != 1:
            raise ValueError("media has exactly one of data, path and url")

    @property
    def kind(self) -> str:
        """`image`, `audio`, `video`, `text` or `application`, as the MIME type says."""
        return self.mime_type.partition("/")[0]


@dataclass(frozen=True, slots=True)
class InboundMedia:
    """An attachment, validated and stored. `text` was extracted from it; `note` is for the model."""

    media: Media
    text: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A pointer to a resource of an MCP server, which was not read."""

    uri: str
    name: str
    mime_type: str | None = None
    description: str | None = None


Block = Text | Media | ResourceLink


def text_of(blocks: tuple[Block, ...]) -> str:
    return "\n".join([block.text for block in blocks if isinstance(block, Text)])
