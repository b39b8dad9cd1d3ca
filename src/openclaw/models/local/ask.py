"""What kind of utterance a message is: a request, a question about a notion, or conversation."""

import re
from dataclasses import dataclass

from openclaw.models.local.words import stem, word_set, words

_POLITE = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|now|then|and|also|well|just|kindly|openclaw)\b[\s,!:]*"
    r"|(?:can|could|would|will|may|might)\s+(?:you|i|we)\s+(?:please\s+)?"
    r"|(?:i|we)\s+(?:want|need|would like|'d like|wish)\s+(?:you\s+)?(?:to\s+)?"
    r"|(?:i|we)'d\s+like\s+(?:you\s+)?(?:to\s+)?"
    r"|go ahead and\s+|let's\s+|let us\s+)+",
    re.IGNORECASE,
)
_WISH = re.compile(r"^\s*(?:i|we)(?:'d| would)?\s+(?:want|need|like|wish)\b", re.IGNORECASE)
_SUBJECTS = word_set("""i we he she they you it its this that my our his her their there everyone nobody im ive
    youre were theyre""")
# Questions about a notion, and things to write: a tool that merely shares a word is not meant.
_EXPLAINS = re.compile(
    r"^\s*(?:please\s+)?(?:(?:can|could|would) you\s+(?:please\s+)?)?"
    r"(?:explain|define|describe|why\b|how (?:do|does|did|would|should|can|could|long|come)\b"
    r"|what(?:'s| is| are| does)\s+(?:the\s+)?(?:meaning|difference|point|purpose|idea)\b"
    r"|what(?:'s| is| are)\s+an?\b|(?:what|who)(?:'s| is| are)\s+\S+\s*\?*\s*$|(?:tell|teach) me (?:about|why|how|a)\b"
    r"|(?:write|compose|make up|invent|sing|draw)\s+(?:me\s+)?(?:a|an|some|the)?\s*(?:\w+\s+)?"
    r"(?:poem|haiku|story|joke|song|essay|limerick|letter|tale|riddle|rap|sonnet)\b"
    r"|should i\b|do you (?:like|think|believe|prefer|feel)\b)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:do not|don't|dont|never|without|must not|mustn't|shouldn't|should not)\b", re.IGNORECASE
)
_CLAUSE = re.compile(r"[.;!?\n]+\s*|,?\s+(?:and then|then|and)\s+|,\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ask:
    """How a message asks."""

    wants_something: bool
    explains: bool
    negated: bool
    verbs: frozenset[str]


def _is_statement(message: str) -> bool:
    """Somebody tells something; nothing is asked."""
    if "?" in message or _WISH.match(message):
        return False
    first = (words(message.replace("'", "")) or [""])[0]
    return first in _SUBJECTS


def _leading_verbs(message: str) -> frozenset[str]:
    """The first word of each clause once politeness is gone, which in a request is its verb."""
    found: set[str] = set()
    for clause in _CLAUSE.split(message):
        said = words(_POLITE.sub("", clause.strip()))
        if said:
            found.add(stem(said[0]))
    return frozenset(found)


def read_ask(message: str) -> Ask:
    """Read how a message asks, from its shape alone."""
    return Ask(
        wants_something=bool(words(message)) and not _is_statement(message),
        explains=_EXPLAINS.match(message) is not None,
        negated=_NEGATED.search(message) is not None,
        verbs=_leading_verbs(message),
    )
