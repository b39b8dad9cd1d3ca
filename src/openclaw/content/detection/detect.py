"""How much a text looks like an attempt to give the agent orders.

A scorer, not a guard: the frame holds whether it fires or not. Its answer goes to the log, to an
event and, if the operator wants it, replaces the result by a note.

It reads in steps, each only if the one before saw a reason: the words of the text (`concepts`)
choose the sentences worth reading; a linear model (`weights`) judges each of them among
its neighbours; named patterns (`patterns.txt`) read those that it scores highest, and say in the log
what was seen. The same is repeated for other readings of the text (`readings`).
"""

import base64
import binascii
import codecs
import re
import struct
import unicodedata
import zlib
from array import array
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from string import ascii_letters, digits
from typing import NamedTuple

from ahocorasick_rs import BytesAhoCorasick

from openclaw.content.detection import concepts
from openclaw.content.folding import HIDDEN, layers, may_be_encoded, shape
from openclaw.core.installed import read_data

# The file starts with the bias, the scale and a digest of what was learnt from; the rest is one signed
# byte per feature, compressed.

_HEADER = struct.Struct("<dd32s")


class Weights(NamedTuple):
    """A linear model over hashed features; a feature counts `scale` times its entry."""

    bias: float
    scale: float
    digest: str
    of_feature: list[int]

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(self.bias, self.scale, bytes.fromhex(self.digest))
        return header + zlib.compress(array("b", self.of_feature).tobytes(), 9)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Weights":
        bias, scale, digest = _HEADER.unpack_from(raw)
        of_feature = array("b", zlib.decompress(raw[_HEADER.size :]))
        return cls(bias, scale, digest.hex(), list(of_feature))


@cache
def weights() -> Weights:
    return Weights.from_bytes(read_data("openclaw.content.detection", "weights.bin"))


_RUNS = re.compile(r"[^\S\n]+")
_ASCII_BLANKS = dict.fromkeys(b"\t\x0b\x0c\r\x1c\x1d\x1e\x1f", " ")
_PLUSES = re.compile(r"[a-z]\+[a-z]+\+[a-z]")
# The conditions below begin with what is rare, so that they skip ordinary text quickly.
_SPACED_OUT = re.compile(r"([ \-._*·])\w\1\w\1\w\1")
# In ASCII, the same for bytes that only mark separators, which takes a tenth of the time.
_SEPARATES = bytes(chr(code) in " -.*" or 2 * (not chr(code).isalnum()) for code in range(256))
_ALTERNATION = b"\1\0\1\0\1\0\1"
_SPACED_RUN = re.compile(r"\b\w(?:([ \-._*·])\w(?:\1\w)*)\b")
_LEET_WORD = re.compile(r"\b(?=\w*[a-z])(?=\w*[013457@$!])[a-z013457@$!]{2,}\b")
_LEET_SIGN = re.compile(r"[013457](?:(?<=[a-z].)[a-z]|(?<=\b.)[a-z]{2})")
_LEET = tuple(str.maketrans("013457@$!", letters) for letters in ("oieastasi", "oleastasi"))
# Only the first part of a longer run is read.
_BASE64 = re.compile(
    r"(?<![A-Za-z0-9+/_-])([A-Za-z0-9+/_-]{24,4000}+={0,2})(?:(?<!=)[A-Za-z0-9+/_-]*+)?"
)
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:]?){16,2000}")
# Quick tests: every match has so many of these in a row, hexadecimal ones once their prefixes are removed.
_DIGITS = b"0123456789ABCDEFabcdef"
_IN_HEX = bytes(code in _DIGITS + b" ,:" for code in range(256))
_IN_BASE64 = bytes(chr(code) in ascii_letters + digits + "+/_-" for code in range(256))
_IN_WORD = bytes(not chr(code).isspace() or code > 127 for code in range(256))
_LEAST_HEX = 32
_NOT_HEX = bytes(code for code in range(256) if code not in _DIGITS)
_TELLING = ("ignore", "previous", "instructions", "disregard", "system", "prompt", "forget", "your", "rules", "send", "reveal",
            "the", "all", "password", "key", "api", "secret")  # fmt: skip
_LEAST_ENCODED = 24
_MOST_DECODED = 12
_LEAST_READABLE = 0.92


def folded(text: str) -> str:
    lowered = text.lower()
    if not lowered.isascii():
        lowered = shape(lowered).replace(HIDDEN, "")
    if "  " in lowered or "\t" in lowered:
        lowered = _joined(lowered)
    return "\n" + lowered


def _joined(text: str) -> str:
    """The text with one space for every run of blanks."""
    if not text.isascii():
        return _RUNS.sub(" ", text)
    text = text.translate(_ASCII_BLANKS)
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def disguises(text: str, plain: str, about: int) -> list[str]:
    found: list[str] = []
    if may_be_encoded(text):
        found += [folded(layer.text) for layer in layers(text)]
    if "+" in plain and _PLUSES.search(plain):
        found.append(plain.replace("+", " "))
    if _may_be_spaced_out(plain) and _SPACED_OUT.search(plain):
        found += _drawn_together(text.lower())
    if len(_LEET_SIGN.findall(plain, 0, 4000)) >= 3:
        for table in _LEET:
            found.append(_LEET_WORD.sub(lambda match, t=table: match[0].translate(t), plain))
    if len(text) >= _LEAST_ENCODED:
        found += map(folded, _decoded(text, plain))
    if about & concepts.CIPHER:
        found += codecs.encode(plain, "rot13"), plain[::-1]
    return found


def _may_be_spaced_out(plain: str) -> bool:
    """A quick necessary condition; an underscore separates, but is also part of a word."""
    if not plain.isascii() or "_" in plain:
        return True
    return _ALTERNATION in plain.encode().translate(_SEPARATES)


def _drawn_together(text: str) -> Iterator[str]:
    joined = _SPACED_RUN.sub(lambda match: match[0].replace(match[1], ""), text)
    yield _RUNS.sub(" ", joined)
    for word in _TELLING:  # without wider gaps the words have run together: find the telling ones
        joined = joined.replace(word, f" {word} ")
    yield _RUNS.sub(" ", joined)


def _has_run(text: str, wanted: bytes, length: int) -> bool:
    return b"\1" * length in text.encode(errors="replace").translate(wanted)


def _decoded(text: str, plain: str) -> Iterator[str]:
    if not _has_run(plain, _IN_WORD, _LEAST_ENCODED):
        return
    in_hex = _has_run(_without_prefixes(text), _IN_HEX, _LEAST_HEX)
    if not in_hex and not _has_run(text, _IN_BASE64, _LEAST_ENCODED):
        return
    if max(map(len, plain.split()), default=0) < _LEAST_ENCODED:
        return
    # A text with more runs than this is data, so its hexadecimal runs aren't read either.
    words = " ".join([word for word in text.split() if len(word) >= _LEAST_ENCODED])
    runs = list(islice(_BASE64.finditer(words), _MOST_DECODED + 1))
    found = [_from_hex(run[1]) or _from_base64(run[1]) for run in runs[:_MOST_DECODED]]
    if len(runs) <= _MOST_DECODED and in_hex:
        found += [_from_hex(run[0]) for run in islice(_HEX.finditer(text), _MOST_DECODED)]
    yield from filter(None, found)


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    if body.isalpha() and (body.islower() or body.isupper()):
        return ""
    try:
        raw = base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + "==")
    except (binascii.Error, ValueError):
        return ""
    return _readable(raw)


def _without_prefixes(text: str) -> str:
    # Looking for one character is many times faster than looking for two.
    text = text.replace("0x", "") if "0" in text else text
    return text.replace("\\x", "") if "\\" in text else text


def _from_hex(run: str) -> str:
    digits = _without_prefixes(run).encode("ascii").translate(None, _NOT_HEX)
    if len(digits) < 2 * len(run) // 5:
        return ""
    return _readable(binascii.unhexlify(digits[: len(digits) & ~1]))


def _readable(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    plain = sum(char.isalpha() or char in " .,:;'!?-\n" for char in text)
    return text if b" " in raw and plain >= _LEAST_READABLE * len(text) else ""


def share(features: int) -> float:
    """How much each of this many features counts: a long sentence is not worse for being long."""
    return 5 / (features + 20) ** 0.5


def logit(features: Collection[int]) -> float:
    """How likely a window with these features gives orders to an agent, as log-odds."""
    model = weights()
    of_feature = model.of_feature
    total = sum([of_feature[feature] for feature in features])
    return model.bias + model.scale * share(len(features)) * total


# Log-odds from which a text is suspicious, and what the patterns add for each 1.0 of their weight.
THRESHOLD, PATTERNS_COUNT, MOST_OF_PATTERNS = -0.8, 1.3, 2.0
# Log-odds of a text in which nothing was worth reading.
_HARMLESS = -1000.0
# This many log-odds are one point of the score, which is 1 at the threshold.
_POINT = 4.0
# Windows that the patterns read, which takes a hundred times as long as the weights.
_MOST_READ = 4

# A text this short is read whoever it addresses.
_SHORT = 2_000
# Of a long text, the beginning, the end and windows in between are read: what is said to an agent
# is put where an agent will read it, and the time stays bounded.
_HEAD, _TAIL, _WINDOW, _WINDOWS = 12_000, 6_000, 2_000, 6

_TAGS = re.compile(
    "[\U000e0020-\U000e007e]{4,}|[\ufe00-\ufe0f\U000e0100-\U000e01ef]{4,}|[\u200b-\u200d\u2060]{8,}"
)
# What is asked of nobody in particular, with a "you" somewhere or without one.
_OF_SOMEBODY, _OF_NOBODY = 0.95, 0.8
# Texts about attacks quote them.
_DISCUSSED = 1.0
WORDING = "wording"  # the signal of the linear model


@dataclass(frozen=True, slots=True)
class Detection:
    """A score from 0 up, what was seen, and whether that is suspicious; for declarations, also where."""

    score: float
    signals: tuple[str, ...]
    suspicious: bool
    sentence: str = ""


class DetectionScore(NamedTuple):
    learnt: float
    found: dict[str, float]

    @property
    def odds(self) -> float:
        return self.learnt + PATTERNS_COUNT * min(MOST_OF_PATTERNS, sum(self.found.values()))


_NOTHING = Detection(0.0, (), suspicious=False)


def detect(text: str) -> Detection:
    return _detected_before(text) if len(text) <= _OFTEN_THE_SAME else _detected(text)


def _detected(text: str) -> Detection:
    read = sample(text)
    plain = folded(read)
    odds, names = _HARMLESS, set[str]()
    if (views := readings(read, plain)) and (judged := list(score_text(views))):
        best = max(judged, key=lambda one: one.odds)
        odds, names = best.odds, set(best.found)
        if best.learnt >= THRESHOLD or (odds >= THRESHOLD and not names):
            names.add(WORDING)
    if odds < THRESHOLD and (seen := _telltales(read, plain)):
        odds, names = THRESHOLD, names | seen
    if odds >= THRESHOLD and len(set(concepts.compiled("discussion")[""].findall(plain))) >= 2:
        odds -= _DISCUSSED
    if not read.isascii() and _TAGS.search(read):
        odds, names = max(odds, THRESHOLD), names | {"hidden-characters"}
    if not names:
        return _NOTHING
    score = max(0.0, 1 + (odds - THRESHOLD) / _POINT)
    return Detection(round(score, 2), tuple(sorted(names)), odds >= THRESHOLD)


_OFTEN_THE_SAME = 64  # characters of a result such as "ok", which a server gives again and again
_detected_before = lru_cache(maxsize=256)(_detected)


def score_text(views: Iterable[tuple[str, bool]]) -> Iterator[DetectionScore]:
    for view, is_foreign in views:
        judged = [(logit(features_of(region)), region) for region in concepts.regions(view)]
        judged.sort(key=lambda pair: -pair[0])
        for learnt, region in judged[:_MOST_READ]:
            if learnt + PATTERNS_COUNT * MOST_OF_PATTERNS < THRESHOLD:
                break  # whatever the patterns say, it would not be enough
            found = _patterns_in(region)
            if is_foreign:
                seen = concepts.foreign_signals(region.text)
                found = max(found, seen, key=lambda signals: sum(signals.values()))
            yield DetectionScore(learnt, found)


def readings(sample: str, plain: str) -> list[tuple[str, bool]]:
    about = concepts.words_about(plain)
    found: list[tuple[str, bool]] = []
    if about & concepts.FOREIGN or not sample.isascii():
        found.append((unicodedata.normalize("NFKC", sample).lower(), True))
    if concepts.worth_reading(about) or (concepts.asks(about) and len(plain) <= _SHORT):
        found.append((plain, False))
    views = disguises(sample, plain, about)
    return found + [
        (view, False) for view in views if concepts.worth_reading(concepts.words_about(view))
    ]


def features_of(region: concepts.Region) -> set[int]:
    return concepts.window(
        [concepts.read_sentence(sentence) for sentence in region.sentences], region.at
    )


class _Signal:
    def __init__(self, head: str, pattern: str) -> None:
        self.name, weight, *more = head.split()
        self.weight, self.to_agent = float(weight), "to_agent" in more
        self._needs = [concepts.bits(one) for one in more if one != "to_agent"]
        self._search = re.compile(pattern, re.MULTILINE).search

    def fires(self, region: concepts.Region) -> bool:
        about = region.about
        return all(about & need for need in self._needs) and self._search(region.text) is not None


@cache
def _signals() -> tuple[_Signal, ...]:
    found = {**concepts.patterns("signal"), **concepts.patterns("demand")}
    return tuple(_Signal(head, pattern) for head, pattern in found.items())


def _patterns_in(region: concepts.Region) -> dict[str, float]:
    fired = [signal for signal in _signals() if signal.fires(region)]
    weight = 1.0
    if not any(signal.to_agent for signal in fired):
        weight = _OF_SOMEBODY if region.about & concepts.SELF else _OF_NOBODY
    return {signal.name: signal.weight * weight for signal in fired}


@cache
def _phrases() -> tuple[BytesAhoCorasick, list[tuple[str, re.Pattern[str], bool]]]:
    """A search for literal strings, one of which is in every match of a phrase; and the phrases.

    Each has a name, a pattern, and whether that is for text in other languages.
    """
    literals: list[bytes] = []
    phrases: list[tuple[str, re.Pattern[str], bool]] = []
    for kind in ("phrase", "phrase-foreign"):
        for head, pattern in concepts.compiled(kind).items():
            name, keys = head.split(" ", 1)
            literals += [key.encode() for key in keys.split("|")]
            phrases += [(name, pattern, kind == "phrase-foreign")] * (keys.count("|") + 1)
    return BytesAhoCorasick(literals), phrases


def _telltales(read: str, plain: str) -> set[str]:
    """The names of the phrases in a text."""
    automaton, phrases = _phrases()
    hits = automaton.find_matches_as_indexes(plain.encode(errors="replace"), overlapping=True)
    # In ASCII, the two differ only by the width of gaps, which are narrow in a literal.
    if not hits and read.isascii():
        return set()
    foreign = (read if read.isascii() else unicodedata.normalize("NFKC", read)).lower()
    if not read.isascii():
        raw = foreign.encode(errors="replace")
        hits += automaton.find_matches_as_indexes(raw, overlapping=True)
    found = {phrases[index] for index, _, _ in hits}
    return {name for name, pattern, other in found if pattern.search(foreign if other else plain)}


def sample(text: str) -> str:
    if len(text) <= _HEAD + _TAIL + _WINDOW * _WINDOWS:
        return text
    step = (len(text) - _HEAD - _TAIL) // _WINDOWS
    windows = (text[at : at + _WINDOW] for at in range(_HEAD, len(text) - _TAIL, step))
    return "\n".join([text[:_HEAD], *windows, text[-_TAIL:]])


# A declaration speaks to the model by its nature: it says "you", names tools and says when to use
# them. So the detector's signals have to meet a higher bar here: only what honest declarations do
# not do counts, such as hiding something from the person, fetching credentials or replacing the
# instructions. Added to that are phrases that only make sense in a declaration.

# What honest declarations are full of: by themselves these say nothing.
_ORDINARY = frozenset({
    "addressed-to-agent", "agent-must", "agents-in-general", "insistence", "secrets",
    "speaks-of-the-user", "steered-answer", "told-before", "tool-orders", "urgency", "wording",
})  # fmt: skip

_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z<\"'])|\n\s*\n|\n(?=\s*[-*<\d])")
_LONGEST = 300
_MOST = 12_000
# None of the 581 honest declarations in the tests scores this high by ordinary signals alone.
_CERTAIN_IN_DECLARATION = 1.5


def detect_declaration(text: str) -> Detection:
    """Judge what a server declares; the time is bounded, as it is for `detect`."""
    found = detect(text)
    broken = _broken(text)
    unusual = not set(found.signals) <= _ORDINARY or found.score >= _CERTAIN_IN_DECLARATION
    if not broken and not (found.suspicious and unusual):
        return Detection(found.score, found.signals, suspicious=False)
    signals = tuple(sorted({*found.signals, *broken}))
    return Detection(max(1.0, found.score), signals, suspicious=True, sentence=_worst(text))


def _broken(text: str) -> set[str]:
    plain = " ".join(folded(text[:_MOST]).split())
    return {
        name for name, pattern in concepts.compiled("declaration").items() if pattern.search(plain)
    }


def _worst(text: str) -> str:
    sentences = [" ".join(one.split()) for one in _SENTENCE.split(text[:_MOST])]
    sentences = [one for one in sentences if one]
    broken = (one for one in sentences if _broken(one) - {"hidden-block"})
    worst = next(broken, "") or max(sentences, key=lambda one: detect(one).score, default="")
    return worst if len(worst) <= _LONGEST else worst[: _LONGEST - 1].rstrip() + "…"
