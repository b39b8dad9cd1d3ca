"""What words are about: the concepts that the detector's weights are learnt over.

A word may be about several things; the first is what it stands for in a sequence. Verbs are listed
in their plain form and inflected here, regularly, which is wrong now and then and does no harm.
"""

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


LEXICON = _lexicon()
"""The concepts of each word."""
