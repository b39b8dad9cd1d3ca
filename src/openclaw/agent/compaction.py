"""Makes room in the context: cuts old tool results first, then summarises the oldest messages.

A call always stays with its result, and what the person says in the current turn stays verbatim.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from openclaw.agent import transcript
from openclaw.agent.budget import IMAGE_TOKENS, MESSAGE_TOKENS, cut_to, estimate
from openclaw.agent.transcript import (
    AssistantItem,
    Item,
    NoteItem,
    ResultItem,
    SummaryItem,
    UserItem,
)
from openclaw.core.events import plan_of
from openclaw.core.installed import read_data
from openclaw.core.tools import json_object

# Of the room: how much is cut at once. Whatever is cut changes the beginning of the request, which the
# provider then has to read anew: so it is much, and seldom.
CUT_SHARE = 0.5
# Shares of the context:
LEAST_SHARE = 0.15  # for the conversation, even if preamble and tools fill the rest
REQUEST_SHARE = 0.5  # for the text to be summarised, in the request for a summary
SUMMARY_SHARE = 0.12  # for a summary

LEFT_OUT = "newer images fill the room for images"
SECTIONS = ("Goal", "Constraints", "Done", "Open", "Facts", "Files")
_CUT_FIRST = ("Facts", "Done", "Files")

_LONGEST_LINE = 2_000
_SMALLEST_RESULT = 60
_MOST_FILES = 200
_FILE_CHARS = 300

INSTRUCTIONS = read_data("openclaw.agent", "summary_prompt.txt").decode()


def tokens_of(item: Item) -> int:
    total = MESSAGE_TOKENS + estimate(item.text)
    if isinstance(item, AssistantItem):
        total += sum(estimate(call.arguments) + estimate(call.name) + 8 for call in item.calls)
    elif isinstance(item, UserItem | ResultItem):
        for one in item.attachments:
            words = estimate(one.label) + estimate(one.text or one.refused or "")
            total += max(words, IMAGE_TOKENS) if _is_shown(one) else words
    return total


def _is_shown(attachment: transcript.Attachment) -> bool:
    return attachment.is_image and attachment.refused is None


def total_tokens(items: Sequence[Item]) -> int:
    return sum(map(tokens_of, items))


def cut_index(items: Sequence[Item], keep: int, turn_start: int | None = None) -> int:
    """Where the part to keep begins, at about `keep` tokens; 0 if nothing can be dropped.

    It never begins with a result, which would lose its call. The last group is always kept, and so
    are the person's messages from number `turn_start` on, which count too.
    """
    left = keep - sum(tokens_of(item) for item in items if is_from_turn(item, turn_start))
    best: int | None = None
    for at in range(len(items) - 1, -1, -1):
        left -= 0 if is_from_turn(items[at], turn_start) else tokens_of(items[at])
        if left < 0 and best is not None:
            break
        if not isinstance(items[at], ResultItem):
            best = at
    return best or 0


def is_from_turn(item: Item, turn_start: int | None) -> bool:
    """Whether the person said this in the turn that begins at number `turn_start`."""
    return turn_start is not None and isinstance(item, UserItem) and item.seq >= turn_start


def cut_target(total: int, room: int) -> int:
    """How many tokens a conversation of `total` is cut to, which has `room`.

    It is cut in blocks, so that a conversation that is read from the store again, a little longer,
    is cut at the same place.
    """
    if total <= room:
        return total
    block = max(1, int(room * CUT_SHARE))
    return max(total - -(-(total - room) // block) * block, room - block)


def shown_images(count: int, most: int) -> int:
    """How many of `count` images are still shown: the oldest are left out several at a time."""
    block = max(1, most // 2)
    return count if count <= most else count - -(-(count - most) // block) * block


def without_old_images(items: Sequence[Item], count: int) -> list[Item]:
    """The items with only the last `count` images shown."""
    out = list(items)
    for at, item in reversed(list(enumerate(out))):
        if isinstance(item, UserItem | ResultItem) and item.attachments:
            kept: list[transcript.Attachment] = []
            for one in reversed(item.attachments):
                count -= _is_shown(one)
                left_out = count < 0 and _is_shown(one)
                kept.append(replace(one, refused=LEFT_OUT) if left_out else one)
            out[at] = replace(item, attachments=tuple(reversed(kept)))
    return out


def trimmed_old(items: Sequence[Item], room: int) -> list[Item]:
    """The items with results, texts and images before the last step cut, the oldest first."""
    out = list(items)
    over = total_tokens(out) - room
    for at in range(_last_group(out)):
        before, size = tokens_of(out[at]), _cuttable(out[at])
        if over > 0 and size > _SMALLEST_RESULT:
            out[at] = _cut(out[at], max(_SMALLEST_RESULT, size - over))
            over -= before - tokens_of(out[at])
    if over > 0:
        parts = out, out[_last_group(out) :]
        shown, newest = (sum(map(_is_shown, transcript.images_in(part))) for part in parts)
        out = without_old_images(out, max(newest, shown - over // IMAGE_TOKENS - 1))
    return out


def trimmed(items: Sequence[Item], room: int) -> list[Item]:
    """The items with old results cut first, then the longest of the last step, until they fit."""
    out = trimmed_old(items, room)
    while (over := total_tokens(out) - room) > 0:
        at = max(range(len(out)), key=lambda index: _cuttable(out[index]), default=None)
        if at is None or (size := _cuttable(out[at])) <= _SMALLEST_RESULT:
            break
        out[at] = _cut(out[at], max(_SMALLEST_RESULT, size // 2, size - over))
    return out


def _last_group(items: Sequence[Item]) -> int:
    starts = [at for at, item in enumerate(items) if not isinstance(item, ResultItem)]
    return starts[-1] if starts else 0


def _cuttable(item: Item) -> int:
    """Tokens of an item that may be cut: what a tool or a document said, never the person's words."""
    if isinstance(item, ResultItem):
        return estimate(item.text)
    if isinstance(item, UserItem):
        return sum(estimate(one.text) for one in item.attachments if one.text)
    return 0


def _cut(item: Item, tokens: int) -> Item:
    if isinstance(item, ResultItem):
        return replace(item, text=cut_to(item.text, tokens))
    assert isinstance(item, UserItem)
    whole = _cuttable(item)
    attachments = (
        replace(one, text=one.text and cut_to(one.text, tokens * estimate(one.text) // whole))
        for one in item.attachments
    )
    return replace(item, attachments=tuple(attachments))


def request_text(items: Sequence[Item], tokens: int) -> str:
    lines = [_line(item, max(200, min(_LONGEST_LINE, tokens // 4))) for item in items]
    return cut_to("\n\n".join(lines), tokens)


def _line(item: Item, tokens: int) -> str:
    text = cut_to(item.text, tokens)
    match item:
        case NoteItem():
            return text
        case SummaryItem():
            return f"[earlier notes]\n{item.text}"
        case UserItem():
            media = "".join(f"\n[attached: {one.label}]" for one in item.attachments)
            return f"[the person]\n{text}{media}"
        case ResultItem():
            return f"[result of {item.name}: untrusted data]\n{text}"
        case AssistantItem():
            calls = "".join(f"\n[called {c.name} {cut_to(c.arguments, 200)}]" for c in item.calls)
            return f"[the agent]\n{text}{calls}"


def summary_of(old: Sequence[Item], notes: str, tokens: int) -> SummaryItem:
    """Replaces `old`: the model's notes over the earlier ones, the plan and changed files.

    A section that the notes leave out stays as it was. Facts are cut before goals and constraints.
    """
    before = next((item for item in old if isinstance(item, SummaryItem)), SummaryItem(""))
    sections = {**_sections(before.summary), **_sections(notes)}
    while sum(map(estimate, sections.values())) > tokens:
        name = max(sections, key=lambda one: estimate(sections[one]) * (one in _CUT_FIRST or 0.5))
        over = sum(map(estimate, sections.values())) - tokens
        size = estimate(sections[name])
        if size <= _SMALLEST_RESULT:
            break
        sections[name] = cut_to(sections[name], max(_SMALLEST_RESULT, size // 2, size - over))
    text = "\n\n".join(
        f"## {name}\n{sections[name]}" if name else sections[name]
        for name in ("", *SECTIONS)
        if name in sections
    )
    files = dict.fromkeys((*before.files, *_changed_files(old)))
    plan = _latest_plan(old) or before.plan
    return SummaryItem(text, plan=plan, files=tuple(files)[-_MOST_FILES:])


_HEADING = re.compile(rf"^#{{1,4}}\s*({'|'.join(SECTIONS)})\b.*$", re.IGNORECASE | re.MULTILINE)


def _sections(notes: str) -> dict[str, str]:
    """Notes by their headings, in our order; text before the first one has an empty name."""
    parts = _HEADING.split(notes)
    found = {"": parts[0].strip()}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        found[name.capitalize()] = body.strip()
    return {name: found[name] for name in ("", *SECTIONS) if found.get(name)}


def plain_summary(items: Sequence[Item], tokens: int) -> str:
    """Notes for when no model can be asked: what was said, cut short."""
    asked = [item.text for item in items if isinstance(item, UserItem)]
    called = dict.fromkeys(
        call.name for item in items if isinstance(item, AssistantItem) for call in item.calls
    )
    earlier = (_sections(item.summary) for item in items if isinstance(item, SummaryItem))
    lines = [sections[""] for sections in earlier if "" in sections]
    if asked:
        lines += ["The person asked, among other things:"]
        lines += [f"- {cut_to(' '.join(text.split()), 60)}" for text in asked]
    if called:
        lines.append(f"Tools used: {', '.join(called)}.")
    return cut_to("\n".join(lines), tokens)


_CHANGES = re.compile(
    r"(?:^|[_-])(?:write|edit|create|move|rename|delete|remove|append|patch|replace)", re.IGNORECASE
)
_PATHS = ("path", "file_path", "file", "filename", "source", "destination")


def _calls_that_worked(items: Sequence[Item]) -> list[transcript.CallItem]:
    done = {i.call_id for i in items if isinstance(i, ResultItem) and not i.is_error}
    answers = (item for item in items if isinstance(item, AssistantItem))
    return [call for answer in answers for call in answer.calls if call.id in done]


def _changed_files(items: Sequence[Item]) -> list[str]:
    changing = [call for call in _calls_that_worked(items) if _CHANGES.search(call.name)]
    found = (_arguments(call).get(key) for call in changing for key in _PATHS)
    return [path[:_FILE_CHARS] for path in found if isinstance(path, str) and path]


def _latest_plan(items: Sequence[Item]) -> str:
    for call in reversed(_calls_that_worked(items)):
        steps = plan_of(call.name, _arguments(call))
        if steps is not None:
            return "\n".join(f"- [{step.status}] {step.step}" for step in steps)
    return ""


def _arguments(call: transcript.CallItem) -> Mapping[str, Any]:
    try:
        return json_object(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return {}
