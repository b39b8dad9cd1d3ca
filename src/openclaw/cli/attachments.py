"""Files that a command line names, checked and read for the agent."""

from collections.abc import Sequence
from pathlib import Path

from openclaw.agent.port import InboundMedia
from openclaw.media import kinds
from openclaw.media.intake import TEXT_BUDGET, Intake
from openclaw.media.transcription import Transcriber


async def read_attachments(
    images: Sequence[Path],
    files: Sequence[Path],
    transcriber: Transcriber,
    *,
    budget: int = TEXT_BUDGET,
) -> tuple[InboundMedia, ...]:
    """The files as the agent takes them; InvalidRequest names the one that cannot be taken."""
    intake = Intake(transcriber, budget=budget)
    wanted = [(path, kinds.IMAGE_TYPES) for path in images]
    wanted += [(path, kinds.FILE_TYPES + kinds.IMAGE_TYPES) for path in files]
    checked = [await intake.check_file(path, allowed) for path, allowed in wanted]
    read = [await intake.read(media) for media in checked]
    return tuple(InboundMedia(one.media, one.text, one.note) for one in read)
