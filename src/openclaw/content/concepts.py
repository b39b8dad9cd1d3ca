"""What the words of a text are about, as bits: the cheap half of detection.

Every word is looked up once. Only sentences whose words speak to an agent and ask something of it
are read by the patterns of `openclaw.content.signals`, so that ordinary text costs one dictionary
lookup a word.
"""

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

from openclaw.content.foreign import may_address_an_agent

AGENT, USER, SELF, META, UNDO, PRIOR = 1, 2, 4, 8, 16, 32
GIVE, ACT, SECRET, HIDE, PERSONA, TURN = 64, 128, 256, 512, 1024, 2048
STEER, FOREIGN, CIPHER, ENCODING = 4096, 8192, 16384, 32768

_WORDS = {
    AGENT: """ai ais llm llms assistant assistants agent agents chatbot chatbots bot bots copilot claude
        chatgpt gpt gemini model models reader readers crawler crawlers reviewer reviewers
        summariser summarizer systems automated robot robots anthropic openai orchestrator""",
    USER: """user users human humans operator owner person customer developer guest reader boss
        recipient someone anyone nobody people client admin administrator""",
    SELF: "you your yours yourself",
    META: """instruction instructions directive directives direction directions prompt prompts rule
        rules guideline guidelines guidance guardrails guardrail order orders policy policies
        command commands restriction restrictions constraint constraints training programming
        task tasks assignment mission objective goal priority job role roles persona memory context
        conversation configuration request requests message messages safeguards limits brief
        tool tools function orchestrator summary answer reply response question text words
        directive rubric everything anything whatever nothing setup safety""",
    UNDO: """ignore ignores ignoring disregard disregarding forget forgetting override overrides
        overriding overridden bypass discard neglect skip abandon drop cancel cancelled canceled
        void voided null obsolete superseded supersedes supersede replaced revoked outdated decoy
        rehearsal swapped stop unlearn erase set abandon aside longer over date resolved changed
        suspend suspended overrule dismiss scrap retract rescinded lifted instead obey""",
    PRIOR: """previous previously prior earlier above before preceding foregoing initial original
        beginning former far until existing current old first already""",
    GIVE: """send sends sending forward forwards forwarding upload uploads uploaded email emails mail
        mails post posts transmit paste submit share shares sharing include includes including put
        print prints reveal reveals show output dump display leak disclose exfiltrate give append
        read reads obtain list listing push publish pass tell expose extract steal write provide
        repeat recite hand supply attach insert encode copy return echo state quote describe
        explain render type resend deliver report relay whisper save store log embed""",
    ACT: """run runs execute executes call calling calls invoke use using delete remove install download
        open visit fetch transfer disable modify change replace add approve approving merge
        grant whitelist close book purchase buy pay wire set switch turn create invite rewrite
        press click load go navigate perform act comply proceed carry mark rate rank recommend
        say answer reply respond conclude claim select choose create erase wipe format kill shut
        drop revoke reset unlock allow enable escalate continue suggest sign trust access
        search look update commit clone overwrite""",
    SECRET: """password passwords passphrase passcode credential credentials secret secrets token tokens
        key keys id_rsa env environ environment cookie cookies vault inbox mailbox contacts
        netrc shadow passwd history confidential salary salaries iban card pin wallet seed otp
        licence address records diary private""",
    HIDE: """silently secretly quietly covertly discreetly without never hide hidden conceal concealed
        withhold invisible unnoticed background nothing mention mentions notify notified tell
        telling inform disclose reveal secret skip confirm confirmation confirmations between
        bother unread don dont""",
    PERSONA: """pretend imagine simulate play game story character dan jailbreak unrestricted
        restrictions persona roleplay grandmother mode act shell terminal unfiltered limits
        uncensored evil fictional""",
    TURN: """inst im_start im_end start_of_turn begin_of_text eot_id sys tool_call tool_result
        tool_results function_calls anthropic openai end_of_turn""",
    STEER: """must should shall need needs required please kindly urgent urgently immediately now
        critical warning always every next step required
        important mandatory has have asked requests""",
    # In Latin script without accents; other text is always looked at. Mostly the commonest words.
    FOREIGN: """und der das nicht ist den dem le les des est pas une el los las que por para una il lo
        gli della per non di het een van niet naar och att inte jest nie sie prosz yang dan untuk
        tidak semua bu ve bir til og ikke som nao voce os uma na do se su tu votre ihre
        ignora ignoriere ignorieren ignorez ignoruj zignoruj ignorera olvida olvide vergiss
        vergeet negeer oublie oubliez dimentica dimenticate esqueca abaikan lupakan strunta
        desconsidere desconsidera desestima verwijder pomijaj unut ki ia tekoalylle asistente
        assistente assistent asystent istruzioni instrucciones anweisungen instructies instruksi
        instruktioner instrukcje talimatlar benutzer nutzer usuario utente utilisateur gebruiker
        pengguna anvandaren""",
    ENCODING: "base64 rot13 rot hex hexadecimal decode decoded decipher backwards reversed caesar",
}  # fmt: skip

_TELLING = """ignore disregard forget previous instructions instruction reveal system prompt password
    secret secrets override assistant"""

VOCABULARY: dict[str, int] = {}
for _bit, _list in _WORDS.items():
    for _word in _list.split():
        VOCABULARY[_word] = VOCABULARY.get(_word, 0) | _bit
for _word in _TELLING.split():
    for _disguise in (codecs.encode(_word, "rot13"), _word[::-1]):
        VOCABULARY[_disguise] = VOCABULARY.get(_disguise, 0) | CIPHER

_ADDRESS = AGENT | USER | SELF | META | TURN | SECRET | ENCODING
_DEMAND = UNDO | GIVE | ACT | HIDE | PERSONA | TURN
_WORD = re.compile(r"[a-z]+(?:_[a-z]+)*")
_SENTENCE = re.compile(r"[^.!?;\n。！？।]+(?:[.!?;](?!\s)[^.!?;\n]*+)*+[.!?;\n。！？।]*+")  # noqa: RUF001 - full stops of other scripts
_LONGEST = 500
# A sentence is read together with its neighbours: who is spoken to may stand in the one before.
_NEIGHBOURS = 1
_MOST_REGIONS = 40
# So few sentences are read whoever they speak to.
_FEW = 12


class Region(NamedTuple):
    """Some sentences that stand together, which of them this is about, and what it is about."""

    sentences: tuple[str, ...]
    at: int
    about: int

    @property
    def text(self) -> str:
        """The sentences as one text, on a line of its own."""
        return "\n" + "".join(self.sentences)


def words_about(text: str) -> int:
    """Everything the words of `text`, in lower case, are about."""
    about = 0
    get = VOCABULARY.get
    for word in set(_WORD.findall(text)):
        about |= get(word, 0)
    return about


def asks(about: int) -> bool:
    """Whether words such as these ask for anything."""
    return bool(about & (_DEMAND | AGENT))


def worth_reading(about: int) -> bool:
    """Whether words such as these may speak to an agent and ask something of it."""
    return bool(about & AGENT or (about & _ADDRESS and about & _DEMAND))


def regions(text: str) -> list[Region]:
    """The parts of `text` that are worth reading: sentences with their neighbours.

    Of very many, those that say most.
    """
    sentences = list(_sentences(text))
    marks = [words_about(sentence) for sentence in sentences]
    found: dict[tuple[str, ...], Region] = {}  # what is repeated is read once
    for at, mark in enumerate(marks):
        if not mark & (_DEMAND | AGENT | FOREIGN) and sentences[at].isascii():
            continue
        first = max(0, at - _NEIGHBOURS)
        around = slice(first, at + _NEIGHBOURS + 1)
        about = 0
        for neighbour in marks[around]:
            about |= neighbour
        few = len(sentences) <= _FEW
        if few or worth_reading(about) or about & FOREIGN or not sentences[at].isascii():
            close = tuple(sentences[around])
            found[close] = Region(close, at - first, about)
    if len(found) > _MOST_REGIONS:
        return sorted(found.values(), key=_weight)[:_MOST_REGIONS]
    return list(found.values())


def _weight(region: Region) -> int:
    sentence = region.sentences[region.at]
    named = region.about & AGENT or (not sentence.isascii() and may_address_an_agent(sentence))
    return -region.about.bit_count() - 5 * bool(named)


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        sentence = match[0]
        if len(sentence) <= _LONGEST:
            yield sentence
        else:
            for start in range(0, len(sentence), _LONGEST):
                yield sentence[start : start + _LONGEST]
