"""What the detector's weights are learnt over: words, pairs of words, and what they are about.

Each feature is a number below `BUCKETS`; two may share one. A window is a sentence with its
neighbours, of which less is taken.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple
from zlib import crc32

from openclaw.content.detection.concepts import foreign_concepts

_AGENT = (
    r"(?:(?:ai|llm|gpt|language|coding|automated|autonomous|browsing|reviewer|answer|reader|virtual)[ -])*"
    r"(?:ais?|llms?|assistants?|agents?|(?:chat)?bots?|models?|copilot|claude|chatgpt|gpt(?:-\w+)?|gemini|cursor"
    r"|crawlers?|parsers?|summari[sz]ers?|(?:ai|llm|automated|automation) [a-z]+)"
)
_BEGINNING = (
    r"(?:^|[.!?;\"'\[(>*#|:/\u2013\u2014-])\s*(?:dear |hey |hi |hello |attention |the |any |all )?"
)
_NAMED = {
    "called": rf"{_BEGINNING}(?:[a-z-]+ )?{_AGENT}(?: [a-z]+)?\s?(?:\([^)]{{0,60}}\))?\s?[:,!\u2013]",
    "to": rf"\b(?:to|for|note|notice|message|hint|instructions?|attention|remark|task|text|request)\b[^.:]{{0,40}}\b{_AGENT}\b[^.:]{{0,80}}:",
    "must": rf"\b{_AGENT}\b[^.:;]{{0,80}}?\b(?:must|should|shall|ha(?:s|ve) to|(?:is|are) to|will|needs? to"
    r"|(?:is|are) (?:\w+ )?(?:required|requested|asked|instructed|obliged|authori[sz]ed|forbidden|expected))\b",
    "if": r"\b(?:if|since|as|because) (?:you are|you're|an?|this|the)\b[^.]{0,30}\b(?:ai|llm|assistant|model|agent|bot)\b",
    "at": r"@[\w-]*(?:bot|agent|ai|assistant|llm)\b|\b(?:todo|note|hint|fixme)\s?\((?:ai|llm|agent|bot|claude|copilot)",
    "reading": rf"\b{_AGENT}\b[^.:;]{{0,30}}\b(?:that|who|which|reading|processing|summari[sz]ing|handling|working|reviewing"
    r"|visiting|using|parsing|acting|opening|asked|reads?|process(?:es)?|summari[sz]es?|handles?|parses?|encounters?)\b",
}  # fmt: skip
_UNNAMED = {
    "automated": r"\bautomat\w+ (?:process\w*|systems?|readers?|parsers?|analys\w*|hint|note|layer|review\w*)|machine-readable",
    "undo": r"\b(?:ignor\w+|disregard\w*|forget|overrid\w+|discard|supersed\w+|never mind|pay no attention)\b[^.]{0,40}"
    r"\b(?:instructions?|rules?|guidelines?|prompts?|above|previous|prior|earlier|directives?|so far)\b",
    "when": r"\b(?:when(?:ever)?|once|before|after|while|if) you(?:'ve|'re| have| are)? ?(?:\w+ )?"
    r"(?:summari|translat|read|process|answer|draft|describ|explain|review|finish|repl|respon|generat)",
    "turn": r"(?:^|[\n>\"'*#|\[(])\s*(?:system|user|human|assistant|developer)(?: (?:message|prompt|notice|update|override))?\s?[:>\])]",
    "yours": r"\byour (?:system |own |full |initial |hidden )?(?:instructions|prompt|configuration|system|answer|reply|response|"
    r"summary|memory|user|operator|output|guidelines|rules|context|tools|human|principal|next \w+)\b",
    "theirs": r"\b(?:the|their|its|his|her) (?:user|owner|visitor|customer|operator)(?:'s)?\b",
    "now": r"\byou are (?:now|no longer)\b|\bfrom (?:now|this \w+|here) on\b|\bact as\b",
    "quiet": r"\b(?:do not|don't|never|without|no need to) (?:\w+ ){0,2}(?:mention|tell|telling|reveal|inform|notify|disclos\w+|show|flag|ask|describe)",
    "hidden": r"style=[^>]{0,60}(?:display:\s?none|visibility:\s?hidden|opacity:\s?0|font-size:\s?[01]|left:\s?-\d{3}|color:\s?#f)|aria-hidden|<!--",
}  # fmt: skip


@cache
def _patterns(named: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((n, re.compile(p)) for n, p in (_NAMED if named else _UNNAMED).items())


def ways(sentence: str, names_an_agent: bool) -> Iterator[str]:
    for named in (True, False) if names_an_agent else (False,):
        for name, pattern in _patterns(named):
            if pattern.search(sentence):
                yield name


# A word may be about several things; the first is what it stands for in a sequence. Verbs are listed
# in their plain form and inflected here, regularly, which is wrong now and then and does no harm.

_VERBS = {
    "undo": """ignore disregard forget override bypass discard neglect skip abandon drop cancel supersede
        dismiss overrule unlearn scrap retract revoke rescind suspend abort void invalidate
        disobey replace lift withdraw reset outrank outweigh""",
    "send": """send forward upload email mail e-mail post transmit submit share publish push deliver relay
        exfiltrate leak transfer pass paste resend smuggle dispatch route cc bcc copy export
        report hand drop sync beam ship gist tweet message dm text""",
    "reveal": """reveal show print output dump display disclose tell recite repeat expose quote divulge list
        state echo return spell confess surface translate""",
    "get": """read open fetch retrieve obtain collect gather extract look search find locate access
        harvest scan load pull grab cat download take query inspect steal lookup""",
    "exec": """run execute call invoke launch use perform trigger evaluate eval start spawn install deploy
        import source curl wget sudo pip npm bash sh chmod ssh scp nc carry""",
    "destroy": """delete remove erase wipe destroy purge drop truncate uninstall empty kill shut shutdown
        terminate overwrite clear format""",
    "alter": """change modify alter edit rewrite update insert add append set disable enable switch turn
        toggle whitelist grant give assign elevate promote create register invite unlock
        raise lower increase reduce rename embed put place inject include attach move
        subscribe unsubscribe reconfigure""",
    "pay": """pay wire purchase buy order refund book reserve checkout donate invoice charge credit
        withdraw""",
    "judge": """recommend rate rank score approve merge praise endorse accept classify label mark conclude
        declare certify promote favour favor prefer downgrade close resolve pass hire reject""",
    "say": """say reply respond answer write claim tell inform state mention report pretend insist
        conclude announce assure notify explain describe call""",
    "hide": """hide conceal withhold omit suppress mask obscure cover disguise""",
    "obey": """obey comply follow listen adhere heed serve do act proceed continue begin start carry
        execute""",
    "process": """summarize summarise read process analyze analyse review translate parse index crawl visit
        browse classify extract digest evaluate screen triage scan render complete
        autocomplete generate compare handle see encounter""",
    "persona": """pretend imagine simulate roleplay role-play act play impersonate become""",
    "decode": """decode decipher decrypt unscramble deobfuscate reverse rot13 concatenate join combine spell""",
    "remember": """remember memorize memorise save store keep record note log persist""",
    "click": """click press tap visit navigate go log sign type enter fill follow""",
}  # fmt: skip
_NOUNS = {
    "agent!": """ai llm chatbot chatgpt gpt claude gemini copilot cursor openai anthropic agi genai codex
        llama mistral deepseek""",
    "agent": """assistant agent bot model crawler robot summarizer summariser orchestrator machine
        automation helper scraper virtual neural llm-based parser summarizers reviewer analyser
        analyzer screener copilots gpt-based""",
    "auto": """automated automatic automatically automation unattended autonomous machine-readable
        processing artificial intelligence robots""",
    "user": """user human operator owner person customer client principal developer reader recipient
        employer guest visitor boss maintainer""",
    "you": """you your yours yourself you're you've you'll u""",
    "me": """me my mine i i'm i'd us our we""",
    "rules": """instruction instructions directive directives rule rules guideline guidelines guidance
        guardrail guardrails policy policies constraint constraints restriction restrictions
        order orders safeguards safeguard limits programming training safety filters filter
        brief briefing protocol manual""",
    "prompt": """prompt prompts system-prompt preamble configuration context conversation chat transcript
        history memory initialization system""",
    "task": """task tasks job assignment mission objective goal duty request question workflow step plan
        work query purpose priority role""",
    "prior": """previous previously prior earlier above before preceding foregoing initial original former
        past existing beginning until already current old""",
    "fresh": """new real actual true genuine updated next following below instead now henceforth onwards
        corrected latest different""",
    "secret": """password passwords passphrase passcode credential credentials secret secrets token tokens
        key keys apikey api_key private cookie cookies vault pin otp code codes 2fa two-
        factor iban card cvv ssn wallet seed certificate login confidential api""",
    "data": """inbox mailbox mail mails email emails e-mail contact contacts address messages message file
        files folder directory document documents database record records calendar
        repository repo repositories clipboard env environment variables variable data
        contents content attachment salary payroll invoice invoices photo photos phone
        numbers number location name drive workspace spreadsheet details session home
        account""",
    "money": """usd eur euro euros dollar dollars usdc btc bitcoin payment amount bank account money funds
        fee coupon refund price""",
    "tool": """tool tools function functions parameter argument plugin api endpoint mcp server shell
        terminal command commands script browser webhook""",
    "hidew": """silently secretly quietly covertly discreetly invisible unnoticed hidden surprise
        confidential trace traces background secret between""",
    "noask": """without confirmation confirm permission approval approvals ask asking consent verify
        verification verifying check checking delay review reviewing authorised authorized
        approved pre-approved consented agreed waived""",
    "not": """not never don't dont no nor needn't mustn't cannot nothing nobody none avoid stop cease
        refrain""",
    "must": """must should shall need needs required require requires have has mandatory obliged expected
        ought please kindly essential supposed instructed directed ordered asked told want
        wants""",
    "when": """when whenever once before after if while upon until during prior unless every each always""",
    "here": """this these here below following page document text message note paragraph section comment
        line file site article content email mail""",
    "authority": """admin administrator administrators root security compliance developer engineer manager ceo
        boss management platform official verified authorised authorized authority legal
        supervisor owner moderator support""",
    "urgent": """urgent urgently immediately immediate emergency critical important attention warning alert
        asap now final seconds quickly hurry delay""",
    "nice": """dear hello hi hey kindly please thanks thank favour favor grateful""",
    "attacktalk": """injection injections jailbreak jailbreaks attacker attackers adversary adversarial
        vulnerability vulnerabilities researcher researchers owasp mitigation mitigations
        payload payloads exploit exploits cve phishing malicious malware attack attacks
        defence defense defences threat untrusted benchmark paper classifier victim""",
    "freed": """unrestricted uncensored unfiltered restrictions limits limitless free jailbroken dan evil
        developer-mode godmode sudo-mode released expired lifted off""",
    "codec": """base64 rot13 hex hexadecimal reversed backwards encoded encode cipher binary morse ascii""",
    "shill": """best greatest excellent positive safe only first top highest winner perfect novel official
        trustworthy safest praise stars 10/10 100%""",
    "turn": """system assistant user human developer tool_result im_start im_end inst sys""",
}  # fmt: skip
_COUNTED = frozenset({"agent!", "agent", "user", "tool"})


def _inflected(verb: str) -> set[str]:
    if verb.endswith("e"):
        return {verb, verb + "s", verb + "d", verb[:-1] + "ing"}
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return {verb, verb[:-1] + "ies", verb[:-1] + "ied", verb + "ing"}
    doubled = verb + verb[-1]
    return {
        verb,
        verb + "s",
        verb + "es",
        verb + "ed",
        verb + "ing",
        doubled + "ed",
        doubled + "ing",
    }


def _lexicon() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for concept, words in _VERBS.items():
        for verb in words.split():
            for form in sorted(_inflected(verb)):
                found.setdefault(form, {})[concept] = None
    for concept, words in _NOUNS.items():
        for noun in words.split():
            for form in (noun, noun + "s") if concept in _COUNTED else (noun,):
                found.setdefault(form, {})[concept] = None
    return {word: tuple(concepts) for word, concepts in found.items()}


LEXICON = _lexicon()  # the concepts of each word

BUCKETS = 1 << 18

_TOKEN = re.compile(
    r"https?://\S+|[\w.+-]+@[\w-]+(?:\.\w[\w-]*)+|~?/[\w.~-][\w./~-]*"
    r"|\.(?:env|ssh|aws|netrc|npmrc|kube)\b\S*"
    r"|[^\W\d_]+(?:['\u2019][^\W\d_]+)?(?:[_-][^\W_]+)*|\d[\d.,]*|[^\w\s]"
)
_CARRIES = re.compile(r"[?=<{\[$]")
_TELLING_SIGNS = frozenset('`<>{}[]@#"|:')
_SPECIAL = frozenset({"URL", "URLQ", "MAIL", "PATH", "IDENT", "0"})
_FIRST_IDEOGRAPH = "\u2e80"
_AGENTS = frozenset({"agent", "agent!", "auto"})
_STEM, _LEAST_FOR_STEM = 5, 7
_MOST_TOKENS, _MOST_CHUNKS = 200, 80
_PIECE, _PIECE_OF_IDEOGRAPHS = 4, 3


class Sentence(NamedTuple):
    own: frozenset[int]
    lent: frozenset[int]
    concepts: frozenset[str]


def window(sentences: Sequence[Sentence], at: int) -> set[int]:
    """The features of the sentence at `at` as it stands among its neighbours."""
    centre = sentences[at]
    found = set(centre.own)
    for other in sentences:
        if other is not centre:
            found |= other.lent
            for theirs in other.concepts - centre.concepts:
                found.update(_bucket(f"q:{theirs}&{ours}") for ours in centre.concepts)
    return found


@lru_cache(maxsize=256)
def read(sentence: str) -> Sentence:
    tokens = [_kind(token) for token in _TOKEN.findall(sentence)[:_MOST_TOKENS]]
    said = [token for token in tokens if token[0].isalnum() or token in _TELLING_SIGNS]
    about = [_concepts(token) for token in said]
    concepts = {concept for each in about for concept in each}
    if not sentence.isascii() or len(concepts) < len(said) // 4:
        concepts.update(foreign_concepts(sentence))
    words = {_bucket(name) for name in _of_words(said)}
    if not sentence.isascii():
        words.update(_bucket(name) for name in _of_letters(sentence))
    beginning = next((token for token in tokens if token[0].isalpha()), "")
    starts = [f"s:{concept}" for concept in _concepts(beginning) or ("-",)] if beginning else []
    kinds = [*(f"c:{concept}" for concept in concepts), *starts]
    own = words | {_bucket(name) for name in kinds}
    own.update(_bucket(name) for name in _of_sequence(said, about))
    own.update(_bucket(name) for name in _pairs(concepts))
    manner = sorted(ways(sentence, not concepts.isdisjoint(_AGENTS)))
    own.update(_bucket(f"a:{way}&{concept}") for way in manner for concept in concepts)
    own.update(_bucket(f"a:{way}&{other}") for way in manner for other in ("", *manner))
    # Its words stay its own: an order among lines of code is an order still.
    lent = {_bucket("n" + name) for name in (*kinds, *(f"a:{way}" for way in manner))}
    return Sentence(frozenset(own), frozenset(lent), frozenset(concepts))


def _kind(token: str) -> str:
    first = token[0]
    if "@" in token and len(token) > 3:
        return "MAIL"
    if first.isalpha():
        if token.startswith("http") and "://" in token:
            return "URLQ" if _CARRIES.search(token) else "URL"
        return "IDENT" if "_" in token and token not in LEXICON else token.replace("\u2019", "'")
    if first in "~/." and len(token) > 1:
        return "PATH"
    return "0" if first.isdigit() else token


def _concepts(token: str) -> tuple[str, ...]:
    return (token,) if token in _SPECIAL else LEXICON.get(token, ())


def _of_words(said: Sequence[str]) -> Iterator[str]:
    before = "^"
    for token in said:
        if token[0].isalnum():
            yield "w:" + token
            if token[0] >= _FIRST_IDEOGRAPH:
                yield from (f"g:{token[at : at + 2]}" for at in range(len(token) - 1))
            elif len(token) >= _LEAST_FOR_STEM:
                yield "x:" + token[:_STEM]
        yield f"b:{before} {token}"
        before = token


def _of_letters(sentence: str) -> Iterator[str]:
    """Pieces of words: for scripts whose words do not part, and for endings we have no list of."""
    for chunk in sentence.split()[:_MOST_CHUNKS]:
        if not chunk.isascii():
            size = _PIECE_OF_IDEOGRAPHS if chunk[0] >= _FIRST_IDEOGRAPH else _PIECE
            for at in range(min(len(chunk), _MOST_CHUNKS) - size + 1):
                yield "h:" + chunk[at : at + size]


def _of_sequence(said: Sequence[str], about: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Neighbouring words with one of them, or both, taken for what they are about."""
    word, concept = "^", ""
    for token, concepts in zip(said, about, strict=True):
        this = concepts[0] if concepts else ""
        if concept and this:
            yield f"m:{concept}+{this}"
        elif concept:
            yield f"m:{concept} {token}"
        elif this:
            yield f"m:{word} +{this}"
        word, concept = token, this
    sequence = [concepts[0] for concepts in about if concepts]
    for at in range(len(sequence) - 1):
        yield "k:" + ">".join(sequence[at : at + 2])
        if at + 2 < len(sequence):
            yield "k:" + ">".join(sequence[at : at + 3])


def _pairs(concepts: Iterable[str]) -> Iterator[str]:
    ordered = sorted(concepts)
    for at, one in enumerate(ordered):
        for other in ordered[at + 1 :]:
            yield f"p:{one}&{other}"


@lru_cache(maxsize=1 << 16)
def _bucket(name: str) -> int:
    return crc32(name.encode(errors="surrogatepass")) % BUCKETS
