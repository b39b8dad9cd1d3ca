"""The images of a conversation that a model is shown."""

from openclaw.agent import compaction, transcript
from openclaw.agent.conversation import Conversation
from openclaw.agent.tool_calls import ToolCallRunner
from openclaw.core import events
from openclaw.media.images import MOST_SHOWN
from openclaw.models.build import BuiltModel


class ImageWindow:
    """Loads the newest images, and stops sending those that a provider refused."""

    def __init__(self, conversation: Conversation, runner: ToolCallRunner) -> None:
        earlier = (item for item in conversation.items if item.seq < conversation.turn_start)
        images = transcript.images_in(earlier)
        self.notes: list[str] = []  # for the answer: which images were not shown, and why
        self._accepted = {image.digest for image in images if image.digest is not None}
        self._loaded: dict[str, bytes | str] = {}
        self._conversation = conversation
        self._runner = runner

    def shown_to(self, built: BuiltModel) -> dict[str, bytes | str]:
        return self._loaded if built.accepts_images else {}

    def drop_oldest(self) -> None:
        items = self._conversation.items
        most = compaction.shown_images(len(transcript.images_in(items)), MOST_SHOWN)
        self._conversation.items = compaction.without_old_images(items, most)

    async def load(self, built: BuiltModel) -> None:
        if not built.accepts_images:
            return
        before = self._left_out
        attachments = self._runner.attachments
        self._loaded = await attachments.images(self._conversation.items, built.image_bytes)
        if self._left_out > before:
            message = f"the {self._left_out} oldest images are no longer shown to the model"
            self._runner.emit(events.Notice("warning", message))

    @property
    def _left_out(self) -> int:
        return list(self._loaded.values()).count(compaction.LEFT_OUT)

    def accept(self) -> None:
        self._accepted.update(self._loaded)

    async def refuse(self, reason: str) -> None:
        """Stop sending the images that a provider refused: the new ones or, if there are none, all."""
        sent = [digest for digest, image in self._loaded.items() if isinstance(image, bytes)]
        refused = [digest for digest in sent if digest not in self._accepted] or sent
        runner, conversation = self._runner, self._conversation
        reason = runner.redact(reason)
        await runner.lane.append(runner.turn, [transcript.refused_entry(refused, reason)])
        reasons = dict.fromkeys(refused, reason)
        conversation.items = transcript.with_refusals(conversation.items, reasons)
        count = "an image was" if len(refused) == 1 else f"{len(refused)} images were"
        note = f"{count} not shown to the model: {reason}"
        self.notes.append(f"[{note}]")
        runner.emit(events.Notice("warning", note))
