"""Taking out what a person would not see: control sequences, tags, overrides, hidden runs.

Joiners, marks and selectors that a script or an emoji needs stay where they are.
"""

import re

_ESCAPES = re.compile(
    # CSI, then OSC/DCS/SOS/PM/APC up to their terminator, then two-character escapes.
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}+(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*+[0-~]?"
)
_COLOURS = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]?")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202d\u202e\u206a-\u206f\ufff9-\ufffb\ud800-\udfff"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
)
_EMBEDDINGS = re.compile("[\u202a-\u202c\u2066-\u2069]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff]")

# The three flags that are made with tags: England, Scotland, Wales.
_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_TAG_RUN = re.compile("(?:" + "|".join(_FLAGS) + ")|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]++")

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINERS = "\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2064\ufeff"
_HIDDEN_RUN = re.compile(
    f"[\u00ad{_JOINERS}{_SELECTORS}](?:"
    # Three in a row carry no language.
    f"[\u00ad{_JOINERS}{_SELECTORS}]{{2,}}+"
    # A joiner between two ASCII characters joins nothing.
    f"|(?<=[!-~][{_JOINERS}])[{_JOINERS}]?(?=[!-~])"
    # A soft hyphen stands between letters.
    "|(?<=\u00ad)(?!\\w)|(?<=\\W\u00ad)"
    # A selector chooses a form of the character before it: two in a row choose nothing.
    f"|(?<=[{_SELECTORS}])[{_SELECTORS}])"
)

# The same characters as UTF-8, where looking for them is quickest.
_CONTROL_BYTES = bytes(c for c in range(0x80) if c < 0x20 and c not in b"\t\n\x0c\r") + b"\x7f"
_UNUSUAL = re.compile(
    b"\xc2[\x80-\x9f\xad]|\xcd\x8f|\xe1\xa0[\x8b-\x8f]|\xe2\x80[\x8b-\x8d\xaa-\xae]"
    b"|\xe2\x81[\xa0-\xaf]|\xed[\xa0-\xbf]|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbf[\xb9-\xbb])"
    b"|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0"
)


def strip_invisible(text: str) -> str:
    """`text` without what only a machine reads; ordinary text of any script comes back as it was."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw.translate(None, _CONTROL_BYTES)) != len(raw):
        text = _strip_controls(text)
    elif text.isascii() or not _UNUSUAL.search(raw):
        return text
    elif _CONTROLS.search(text):
        text = _strip_controls(text)
    if _EMBEDDINGS.search(text) and not _RIGHT_TO_LEFT.search(text):
        text = _EMBEDDINGS.sub("", text)
    return _HIDDEN_RUN.sub("", text)


def _strip_controls(text: str) -> str:
    if "\x1b[" in text:  # by far the commonest, and many times as quick alone
        text = _COLOURS.sub("", text)
    if "\x1b" in text or not text.isascii():
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    if not text.isascii():
        text = _TAG_RUN.sub(lambda match: match[0] if match[0] in _FLAGS else "", text)
    return _CONTROLS_BUT_FLAGS.sub(_replacement, text)


_CONTROLS_BUT_FLAGS = re.compile(_CONTROLS.pattern.replace("\U000e0000-\U000e00ff", ""))


def _replacement(match: re.Match[str]) -> str:
    # Half a surrogate pair cannot be written as UTF-8; what it stood for is lost already.
    return "\ufffd" if "\ud800" <= match[0] <= "\udfff" else ""
