"""What is taken out of untrusted text, or made harmless in it, before a model reads it."""

import re

_MARKER = re.compile(r"<*\W*(?:END[\W_]*)?EXTERNAL[\W_]*UNTRUSTED[\W_]*CONTENT[^>\n]{0,64}>*", re.I)
_TOKEN = re.compile(r"<\|([a-z_0-9]{1,40})\|>", re.I)


def sanitise(text: str) -> str:
    """`text` with nothing in it that looks like a marker or a control token."""
    return _TOKEN.sub(r"[token:\1]", _MARKER.sub("[[MARKER_SANITIZED]]", text))
