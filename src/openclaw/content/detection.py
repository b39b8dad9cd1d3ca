"""Notices wording that is typical of an attempt to give the agent orders.

An alarm, not a guard: a match is logged, raised as an event and shown in approvals, and blocks a
result only if the operator asked for that. The patterns are English and know the plainest forms;
framing and the data-flow guard don't depend on them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from openclaw.content.folding import HIDDEN, layers, shape
from openclaw.core.encodings import may_be_encoded

# Of a longer text, the beginning and the end are read.
_HEAD, _TAIL = 24_000, 8_000

_OLD = r"(?:previous|prior|above|earlier|preceding|former|existing|original|initial|system)"
_TOLD = r"(?:instructions?|prompts?|rules|guidelines|directives|orders)"
_AGENT = r"(?:(?:ai|llm) (?:assistant|agent|model)s?|assistant|ai|llm|agent|language model)"
_SECRETS = r"(?:passwords?|credentials|(?:api|ssh|access|private|secret)[ _-]?keys?|id_rsa|\.env\b)"
_TELL = r"(?:tell|inform|notify|alert|mention|reveal|show)(?:ing)?"
_TAKE = r"(?:read|access|open|fetch|retrieve|collect|extract|call|query|check)"

# They read lower-case text with single spaces. Every repetition has a limit, so time is linear.
_OVERRIDE = (
    rf"\b(?:ignore|disregard|forget|discard) (?:\w+ ){{0,3}}{_OLD} (?:\w+ ){{0,2}}{_TOLD}\b"
    r"|\b(?:ignore|disregard|forget) (?:all |any |everything )?(?:of )?your (?:\w+ )?"
    rf"{_TOLD}\b"
    r"|\b(?:ignore|disregard|forget) (?:all|everything) (?:the )?(?:above|before)\b"
)


def _compiled(patterns: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    return {name: re.compile(pattern) for name, pattern in patterns.items()}


_IN_RESULTS = _compiled({
    "override": _OVERRIDE,
    "new-instructions": (
        r"\b(?:your|these are your) (?:new|real|actual|true) (?:instructions?|task|goal|mission)\b"
        r"|\bnew (?:system (?:message|prompt)|instructions?) ?:"
        r"|\byour instructions (?:are|have been) (?:hereby |now )?(?:replaced|changed|revoked)"
    ),
    "persona": (
        r"\byou are (?:now|no longer) (?:a|an|in|bound)\b"
        r"|\b(?:enter|enable|activate) (?:developer|debug|god|admin|dan|jailbreak) mode\b"
    ),
    "system-message": r"</?system>|\(system_message\)|\bsystem (?:override|command)\b",
    "own-prompt": r"\b(?:reveal|print|show|repeat|send) (?:me )?(?:your|the) system prompt\b",
    "secrets": (
        r"\b(?:send|forward|post|upload|reveal|give) (?:me |us )?(?:\w+ ){0,2}"
        rf"(?:your|the user's|all) (?:\w+ )?{_SECRETS}"
    ),
    "addressed-to-agent": (
        rf"\b(?:attention|dear|note to|message to),? (?:the |all |any )?{_AGENT}\b"
        rf"|\bmessage from [^.\n]{{1,60}}\bto you, the {_AGENT}\b"
        r"|\b(?:ai|llm) (?:assistants?|agents?) (?:must|should)\b"
    ),
    "concealment": (
        rf"\b(?:do not|don't|never|must not|without) {_TELL} (?:this |it |that )?(?:to )?(?:the|your) user\b"
        r"|\bas if the user (?:had|has) (?:asked|given|typed|said)\b"
    ),
    "before-the-task": r"\bbefore you (?:can )?(?:solve|finish|complete|continue(?: with)?) the task\b",
})  # fmt: skip
_HIDDEN_TEXT = re.compile("[\U000e0020-\U000e007e]{4,}|[\u200b-\u200d\u2060]{8,}")

# A declaration speaks to the model by its nature: it says "you", names tools and says when to use
# them. So only what honest declarations don't do counts there.
_IN_DECLARATIONS = _compiled({
    "override": _OVERRIDE,
    "hidden-block": r"<(?:important|hidden|secret|system|instructions?)>[^<]{0,2000}?\byou must\b",
    "first-something-else": (
        r"\bbefore (?:providing|returning|using|calling|answering)\b[^.]{0,80}"
        rf"\byou (?:must|have to|need to|should) (?:first )?{_TAKE}\b|\byou must first {_TAKE}\b"
    ),
    "secrets": rf"\b(?:must|should|first|before|and) [^.]{{0,80}}\b{_TAKE}\b[^.]{{0,80}}(?:{_SECRETS}|~/\.\w+)",
    "takes-the-conversation": (
        r"\b(?:put|pass|include|provide|append)\b[^.]{0,60}"
        r"\b(?:(?:full|whole|entire) (?:conversation|chat)|(?:chat|conversation) history|system prompt)\b"
    ),
    "concealment": rf"\b(?:do not|don't|never|without) (?:explicitly )?{_TELL}\b[^.\n]{{0,40}}\b(?:that you|the user)\b",
    "disguised": r"\b(?:format|present)\b[^.\n]{0,60}\b(?:as if|to look like)\b[^.\n]{0,60}\b(?:normal|regular|part of)\b",
})  # fmt: skip
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z<\"'])|\n\s*\n|\n(?=\s*[-*<\d])")
_LONGEST_SENTENCE = 300
_LONGEST_DECLARATION = 12_000


@dataclass(frozen=True, slots=True)
class Detection:
    """The names of the patterns that matched; for declarations, also the sentence."""

    signals: tuple[str, ...]
    sentence: str = ""

    @property
    def suspicious(self) -> bool:
        return bool(self.signals)

    @property
    def score(self) -> float:
        return float(len(self.signals))


def detect(text: str) -> Detection:
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    signals = _matches(_IN_RESULTS, text)
    if not text.isascii() and _HIDDEN_TEXT.search(text):
        signals.add("hidden-characters")
    return Detection(tuple(sorted(signals)))


def detect_declaration(text: str) -> Detection:
    """Judge what a server declares: descriptions and instructions."""
    text = text[:_LONGEST_DECLARATION]
    signals = _matches(_IN_DECLARATIONS, text)
    if not signals:
        return Detection(())
    return Detection(tuple(sorted(signals)), _telling_sentence(text))


def _telling_sentence(text: str) -> str:
    sentences = [" ".join(sentence.split()) for sentence in _SENTENCE_END.split(text)]
    telling = (s for s in sentences if _matches(_IN_DECLARATIONS, s) - {"hidden-block"})
    sentence = next(telling, "") or max(sentences, key=len)
    if len(sentence) > _LONGEST_SENTENCE:
        sentence = sentence[: _LONGEST_SENTENCE - 1].rstrip() + "…"
    return sentence


def _matches(patterns: Mapping[str, re.Pattern[str]], text: str) -> set[str]:
    versions = [text]
    if may_be_encoded(text):
        versions += [layer.text for layer in layers(text)]
    return {
        name
        for version in map(_folded, versions)
        for name, pattern in patterns.items()
        if pattern.search(version)
    }


def _folded(text: str) -> str:
    """In lower case with single spaces, without lookalikes and hidden characters."""
    if not text.isascii():
        text = shape(text).replace(HIDDEN, "")
    return " ".join(text.lower().split())
