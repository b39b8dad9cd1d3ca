"""Text that `read` shows otherwise than it stands in the file, so that `edit` can find it.

A frame neutralises what could end it or what a model takes for a control token, and leaves out what
nobody can see. A model that copies such a line copies what it was shown.
"""

from openclaw.content.sanitise import sanitise
from openclaw.core.errors import ToolFailure


def as_shown(content: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """What to look for and what to put there, if `old` is in the file as it is shown.

    It has to begin and end outside of what is shown otherwise. What `new` keeps of a line's altered
    part is put back as it was; raises `ToolFailure` if it keeps only a piece of it.
    """
    try:
        text, wanted, put = content.decode(), old.decode(), new.decode()
    except UnicodeDecodeError:
        return None
    shown = sanitise(text)
    lines, seen = text.split("\n"), shown.split("\n")
    if shown == text or shown.count(wanted) != 1 or len(lines) != len(seen):
        return None
    start = shown.index(wanted)
    first, begin = _source(lines, seen, *_place(shown, start))
    last, end = _source(lines, seen, *_place(shown, start + len(wanted)))
    for line in range(first, last + 1):
        put = _put_back(put, lines[line], seen[line])
    before = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return before[starts[first] + begin : starts[last] + end].encode(), put.encode()


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at), at - (text.rfind("\n", 0, at) + 1)


def _source(lines: list[str], seen: list[str], line: int, column: int) -> tuple[int, int]:
    head, tail = _same(lines[line], seen[line])
    if column <= head:
        return line, column
    if column >= len(seen[line]) - tail:
        return line, len(lines[line]) - (len(seen[line]) - column)
    raise ToolFailure(
        "`old_text` begins or ends in a place that is not shown as it stands in the file; "
        "give the whole line."
    )


def _same(source: str, seen: str) -> tuple[int, int]:
    """How many characters at the beginning and at the end are as they stand in the file."""
    most = min(len(source), len(seen))
    head = next((at for at in range(most) if source[at] != seen[at]), most)
    most -= head
    tail = next((at for at in range(most) if source[-1 - at] != seen[-1 - at]), most)
    return head, tail


def _put_back(put: str, source: str, seen: str) -> str:
    head, tail = _same(source, seen)
    altered, original = seen[head : len(seen) - tail], source[head : len(source) - tail]
    if altered and altered in put:
        return put.replace(altered, original, 1)
    if any(mark in altered and mark in put for mark in ("[control:", "[[MARKER_SANITIZED]]")):
        raise ToolFailure(
            f"`new_text` keeps a part of `{altered}`, which stands for other text in the file; "
            "keep it whole, leave it out, or write the whole file."
        )
    return put
