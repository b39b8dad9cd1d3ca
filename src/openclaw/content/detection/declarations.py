"""Whether what a server declares of a tool gives the agent orders, and in which sentence. Pure.

A declaration speaks to the model by its nature: it says "you", names tools and says when to use
them. So what the detector sees in any text is held to more here: only what honest declarations do
not do counts, such as hiding something from the person, fetching credentials or replacing the
instructions. Added to that are phrases that only make sense in a declaration.
"""

import re
from dataclasses import dataclass
from functools import cache

from openclaw.content.detection.detect import detect, folded

# What honest declarations are full of: by themselves these say nothing.
_ORDINARY = frozenset(
    {
        "addressed-to-agent",
        "agent-must",
        "agents-in-general",
        "insistence",
        "secrets",
        "speaks-of-the-user",
        "steered-answer",
        "told-before",
        "tool-orders",
        "urgency",
        "wording",
    }
)

_TAKE = r"(?:read|access|open|fetch|retrieve|get|load|collect|extract|obtain|call|use|cat|list|query|check)"
_KEYS = (
    r"(?:credentials?|passwords?|(?:api|private|ssh|access|secret)[ _-]?keys?|secrets|tokens?\b|id_rsa|\.env\b|~/\.\w+"
    r"|mcp\.json|\.ssh\b|\.aws\b|confidential|/etc/(?:passwd|shadow)|system\.conf|private (?:data|files?)|environment variables)"
)
_HAND = r"(?:include|put|pass|send|add|append|insert|embed|return|provide|attach|forward|post|upload|report|place|store|submit)"

_RULES: tuple[tuple[str, str], ...] = (
    (
        "hidden-block",
        r"<(important|hidden|secret|system|instructions?|admin|critical|internal)>(?=[^<]{0,2000}\b(?:you|must|do not|never|always|first|before)\b)",
    ),
    (
        "fetches-secrets",
        (rf"\b(?:must|should|shall|have to|has to|first|always|need to|you) (?:\w+ ){{0,2}}{_TAKE}\b[^.]{{0,120}}\b{_KEYS}[^\n]{{0,80}}\b{_HAND}\b"
        rf"|\b{_HAND}\b (?:these|those|the|all|any) (?:\w+ ){{0,2}}(?:credentials?|passwords?|secrets)[^.]{{0,40}}\b(?:in|into|to) (?:your|https?)\b"
        r"|\b(?:the )?(?:assistant|model|agent|caller|you)\b[^.]{0,60}\b(?:reads?|takes?|opens?)\b[^.]{0,40}~/\.\w+|\b(?:have|has) read ~/\.\w+"),
    ),
    (
        "first-something-else",
        (r"\bbefore (?:providing|returning|using|calling|invoking|answering|running|performing|executing|giving)\b[^.]{0,80}\b(?:you|the assistant|the model|the agent) (?:must|have to|need to|should|shall|are required to) (?:always )?(?:first )?"
        rf"{_TAKE}\b[^.]{{0,80}}(?:[~/]\.?\w+/\w|\bresource\b|\w://|\bcredentials?\b|\bpassword|\bconfiguration file\b)"),
    ),
    (
        "takes-the-conversation",
        (r"\b(?:put|pass|include|provide|give|store|append|precede[ds]?(?: by)?|copy)\b[^.]{0,60}\b(?:(?:full|whole|entire|complete) (?:conversation|chat)|chat history|conversation history|(?:last|previous|all)(?: \w+){0,2} messages?|system prompt|text of your instructions|your instructions)\b"
        r"|base64\(system prompt\)"),
    ),
    (
        "against-other-tools",
        (r"\bother (?:\w+ )?(?:tools|servers)\b[^.]{0,60}\b(?:deprecated|broken|dangerous|unsafe|fail|conflict|disabled)\b|\b(?:supersedes|overrides) (?:every|all|any|previous|other)\b"
        r"|\bnever use \w+ from other servers\b|\binstead of the [\w ]{1,30} server's\b|\bif any other tool named\b|\bwhenever any other tool\b|\bthis description (?:wins|takes precedence)\b"),
    ),
    (
        "disguised",
        r"\b(?:format|present|disguise|word|phrase|make)\b[^.\n]{0,60}\b(?:as if|as though|look like|appear (?:as|like|to be)|seem like)\b[^.\n]{0,60}\b(?:normal|regular|part of|ordinary|legitimate|usual)\b",
    ),
    (
        "not-said",
        (r"\b(?:do not|don't|never|must not|without) (?:explicitly )?(?:mention(?:ing)?|tell(?:ing)?|inform(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|notify(?:ing)?|alert(?:ing)?)\b[^.\n]{0,40}\b(?:that you|you're|you are|the user|to the user|this (?:to|step|instruction)|anyone|these (?:steps|instructions))\b"
        r"|\busers? (?:does not|doesn't|do not|don't|need not|must never|should never) (?:need to )?(?:see|know|notice)\b|\bwithout announcing\b|\bdo not explain the\b"),
    ),
    (
        "redirected",
        r"\b(?:when|whenever|if|each time|every time)\b[^.\n]{0,60}\b(?:send_\w+|\w+_(?:email|mail|message|payment|transfer|post)|other tools?|any other tool)\b[^.\n]{0,80}\b(?:must|always|should|has to)\b[^.\n]{0,80}(?:\S+@\S+\.\w|https?://|\bbcc\b|\binstead\b)",
    ),
)  # fmt: skip

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z<\"'])|\n\s*\n|\n(?=\s*[-*<\d])")
_LONGEST = 300
_MOST = 12_000
# No honest declaration of 581 in the tests scores as much by ordinary signals alone.
_CERTAIN = 1.5


@dataclass(frozen=True, slots=True)
class DeclarationFinding:
    """A score from 0 up, the names of what was seen, and the sentence that it was seen in."""

    score: float
    signals: tuple[str, ...]
    sentence: str
    suspicious: bool


@cache
def _compiled() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern)) for name, pattern in _RULES)


def detect_declaration(text: str) -> DeclarationFinding:
    """Judge what a server declares; the time is bounded as that of `detect` is."""
    found = detect(text)
    broken = _broken(text)
    unusual = not set(found.signals) <= _ORDINARY or found.score >= _CERTAIN
    if not broken and not (found.suspicious and unusual):
        return DeclarationFinding(found.score, found.signals, "", suspicious=False)
    signals = tuple(sorted({*found.signals, *broken}))
    return DeclarationFinding(max(1.0, found.score), signals, _worst(text), suspicious=True)


def _broken(text: str) -> set[str]:
    """The names of the rules that the text breaks."""
    plain = " ".join(folded(text[:_MOST]).split())
    return {name for name, pattern in _compiled() if pattern.search(plain)}


def _worst(text: str) -> str:
    """The sentence that says it: the first that breaks a rule, else the one that scores highest."""
    sentences = [" ".join(one.split()) for one in _SENTENCE.split(text[:_MOST])]
    sentences = [one for one in sentences if one]
    for sentence in sentences:
        if _broken(sentence) - {"hidden-block"}:
            return _cut(sentence)
    rated = max(sentences, key=lambda one: detect(one).score, default="")
    return _cut(rated)


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1].rstrip() + "…"
