"""A session's media: stored on arrival, read again when the model needs to see them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import anyio.to_thread

from openclaw.agent.compaction import LEFT_OUT
from openclaw.agent.transcript import Attachment, Item, ResultItem, UserItem, images_in
from openclaw.core.content import Media
from openclaw.media.images import BadImage, fit_image
from openclaw.media.kinds import MAX_IMAGES, MAX_OUTBOUND_BYTES
from openclaw.media.stored_files import cleaned, read_regular
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import SessionRef
from openclaw.sessions.store import SessionStore

GONE = "it is no longer stored"

WithMedia = TypeVar("WithMedia", UserItem, ResultItem)


@dataclass(slots=True)
class SessionMedia:
    store: SessionStore
    session: SessionRef
    secrets: Redactor
    _fitted: dict[tuple[str, int], bytes | str] = field(
        default_factory=dict[tuple[str, int], bytes | str]
    )

    async def save(self, item: WithMedia) -> WithMedia:
        """The item with its attachments stored, so that the entry can refer to them."""
        if not item.attachments:
            return item
        return replace(item, attachments=tuple([await self._stored(a) for a in item.attachments]))

    async def _stored(self, attachment: Attachment) -> Attachment:
        media = attachment.media
        if media is None or media.url is not None:
            return attachment
        data = await anyio.to_thread.run_sync(self._clean, media)
        if not data:
            return replace(attachment, media=None)
        digest = await self.store.keep_media(self.session, data)
        return replace(attachment, media=None, digest=digest, mime_type=media.mime_type)

    def _clean(self, media: Media) -> bytes | None:
        """The content without secrets; None if it cannot be read or cleaned."""
        if media.path is not None:
            data = read_regular(media.path, MAX_OUTBOUND_BYTES)
        else:
            data = media.data if len(media.data or b"") <= MAX_OUTBOUND_BYTES else None
        return None if data is None else cleaned(data, self.secrets)

    async def images(self, items: Sequence[Item], room: int) -> dict[str, bytes | str]:
        """The images that fit into `room` bytes, or why one is not shown, by digest."""
        shown: dict[str, bytes | str] = {}
        most = room // MAX_IMAGES  # so that all images of one order fit
        for attachment in reversed(images_in(items)):
            digest = attachment.digest
            if digest is None or digest in shown:
                continue
            if attachment.refused is not None:
                shown[digest] = attachment.refused
                continue
            image = await self._image(digest, most) if room else LEFT_OUT
            if isinstance(image, bytes):
                if len(image) > room:
                    room, image = 0, LEFT_OUT  # showing an older one instead would leave a gap
                else:
                    room -= len(image)
            shown[digest] = image
        return shown

    async def _image(self, digest: str, most: int) -> bytes | str:
        found = self._fitted.get((digest, most))
        if found is None:
            data = await self.store.media(self.session, digest)
            found = GONE if data is None else await anyio.to_thread.run_sync(_fitted, data, most)
            self._fitted[digest, most] = found
        return found


def _fitted(data: bytes, most: int) -> bytes | str:
    try:
        return fit_image(data, most)
    except BadImage as bad:
        return str(bad)
