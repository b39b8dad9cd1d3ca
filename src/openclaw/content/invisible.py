"""Taking out what a person would not see: control sequences, tags, overrides, hidden runs.

Joiners, marks and selectors that a script or an emoji needs stay where they are.
"""

import re

from openclaw.content.charsets import CharSet, members, parts

_ESCAPES = re.compile(
    # CSI, then OSC/DCS/SOS/PM/APC up to their terminator, then two-character escapes.
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}+(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*+[0-~]?"
)
_COLOURS = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]?")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
# Of controls, those beyond ASCII, but for tags, of which some flags are made.
_CONTROLS = "\x80-\x9f\u202d\u202e\u206a-\u206f\ufff9-\ufffb"
_CONTROL_RUN = re.compile(f"[{_CONTROLS}\U0001d173-\U0001d17a\U000e01f0-\U000e0fff]++")
_CONTROL_BYTES = bytes(c for c in range(0x80) if c < 0x20 and c not in b"\t\n\x0c\r") + b"\x7f"
_SURROGATE_RUN = re.compile("[\ud800-\udfff]++")
_EMBEDDINGS = "\u202a-\u202c\u2066-\u2069"
_EMBEDDING_RUN = re.compile(f"[{_EMBEDDINGS}]++")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff]")

# The three flags that are made with tags: England, Scotland, Wales.
_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_TAG_RUN = re.compile("(?:" + "|".join(_FLAGS) + ")|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]++")

_BASIC_SELECTORS = "\ufe00-\ufe0f"
_SELECTORS = _BASIC_SELECTORS + "\U000e0100-\U000e01ef"
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

# How the controls beyond the basic plane, and the selectors there, begin in UTF-8. To look for one
# byte is many times as quick as to look for two.
_MUSIC_LEAD, _TAG_LEAD = b"\xf0\x9d\x85", b"\xf3"
# The rest once more, to pass over texts that have none of it.
_CONTROL_SET = CharSet(members(_CONTROLS))
_ESCAPE_SET = CharSet("\x90\x98\x9b\x9d\x9e\x9f")
_EMBEDDING_SET = CharSet(members(_EMBEDDINGS))
_UNUSUAL_SET = CharSet(members(f"{_CONTROLS}{_EMBEDDINGS}\u00ad{_JOINERS}{_BASIC_SELECTORS}"))


def strip_invisible(text: str) -> str:
    """`text` without what only a machine reads; ordinary text of any script comes back as it was."""
    if text.isascii():
        return _strip_controls(text) if any(map(_has_controls, parts(text))) else text
    text, raw = _encoded(text)
    beyond = _TAG_LEAD in raw or (_MUSIC_LEAD[:1] in raw and _MUSIC_LEAD in raw)
    unusual = beyond or _UNUSUAL_SET.may_be_in(text)
    if beyond or _has_controls(raw) or (unusual and _CONTROL_SET.may_be_in(text)):
        text = _strip_controls(text)
    if not unusual:
        return text
    if _EMBEDDING_SET.may_be_in(text) and not _RIGHT_TO_LEFT.search(text):
        text = _EMBEDDING_RUN.sub("", text)
    return _HIDDEN_RUN.sub("", text)


def _has_controls(text: str | bytes) -> bool:
    raw = text if isinstance(text, bytes) else text.encode()
    return len(raw.translate(None, _CONTROL_BYTES)) != len(raw)


def _encoded(text: str) -> tuple[str, bytes]:
    """`text` as UTF-8 too; half a surrogate pair cannot be, and what it stood for is lost already."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE_RUN.sub(lambda run: "\ufffd" * len(run[0]), text)
        return text, text.encode()


def _strip_controls(text: str) -> str:
    if "\x1b[" in text:  # by far the commonest, and many times as quick alone
        text = _COLOURS.sub("", text)
    if "\x1b" in text or _ESCAPE_SET.may_be_in(text):
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    raw = text.encode()
    if _TAG_LEAD in raw:
        raw = _TAG_RUN.sub(lambda run: run[0] if run[0] in _FLAGS else "", text).encode()
    text = raw.translate(None, _CONTROL_BYTES).decode()
    return text if text.isascii() else _CONTROL_RUN.sub("", text)
