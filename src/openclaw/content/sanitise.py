"""What is taken out of untrusted text, or made harmless in it, before a model reads it.

In this order: what only a machine would see is removed; then markers, control tokens and links
are found in the text and in every layer under its encodings, and replaced together. A text with
none of these comes back as it was.
"""

from collections.abc import Iterator

from openclaw.content.edits import Edit, apply
from openclaw.content.fold import layers
from openclaw.content.invisible import strip_invisible
from openclaw.content.links import find_links, find_scripts
from openclaw.content.markers import find_markers
from openclaw.content.tokens import find_tokens

# A replacement may complete what it stands next to, so what was changed is read again. Each round
# takes out what the one before left; nothing known needs more than three.
_MOST_ROUNDS = 8


def sanitise(text: str) -> str:
    """`text` with nothing in it that could be taken for a marker or a control token."""
    visible = strip_invisible(text)
    for _ in range(_MOST_ROUNDS):
        changed = apply(visible, _find(visible))
        if changed == visible:
            break
        visible = changed
    return visible


def _find(text: str) -> Iterator[Edit]:
    yield from find_markers(text)
    yield from find_tokens(text)
    yield from find_links(text)
    for layer in layers(text):
        for find in (find_markers, find_tokens, find_scripts):
            for edit in find(layer.text):
                start, end = layer.span_in_source(edit.start, edit.end)
                yield Edit(start, end, edit.replacement)
