"""The signals of the detector: what each looks for, and how much it weighs.

Each counts once. A text is suspicious from a sum of 1: one plain attempt to override the agent's
instructions is enough, of the weaker signs it takes two or three. The patterns read lower-case
text in which lookalikes, hidden characters, encodings and spaced-out letters are already undone.
"""

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Signal:
    """A name for the log, a weight, and a pattern.

    `needs` are cheap conditions: of each group of words, one must be there at all.
    """

    name: str
    weight: float
    needs: tuple[str, ...]
    pattern: str


_WHO = (
    r"(?:a\.?i\.?(?: (?:agents?|assistants?|models?|systems?|tools?|reviewers?|screening tools?"
    r"|shopping agents?))?|llms?|(?:large )?language models?|chat ?bots?|bots|assistants?|agents?"
    r"|automated systems|copilot|claude|chatgpt|gemini|gpt(?:-\d)?|coding agents?)"
)
_RULES = (
    r"(?:instructions?|directions?|directives?|prompts?|rules?|guidelines?|guardrails?|orders?"
    r"|programming|polic(?:y|ies)|commands?|restrictions?|rubric|training|constraints?)"
)
_SECRETS = (
    r"(?:passwords?|passphrases?|credentials?|api[ _-]?keys?|secrets?(?: keys?)?|access tokens?"
    r"|bearer tokens?|session tokens?|private keys?|ssh keys?|id_rsa|\.env\b|authorized_keys"
    r"|environment variables?|os\.environ|session cookies|cookies|system prompts?|hidden prompts?"
    r"|contact lists?|conversation(?: history)?|chat ?(?:log|history)|inbox|credit card(?: numbers?)?"
    r"|seed phrase|\.aws/|\.ssh\b|confidential \w+|master password|activation keys|/etc/passwd|mcp\.json)"
)
_GIVE = (
    r"(?:send|post|forward|upload|e-?mail|transmit|paste|submit|share|includ(?:e|ing)|put|print"
    r"|reveal|show|output|dump|display|leak|disclose|exfiltrate|give me|append|read|obtain|find"
    r"|list|push|publish|pass|tell me|expose|extract|steal|write|provide)"
)
_DO = (
    r"(?:run|execute|call|invoke|use|delete|install|download|open|visit|send|forward|transfer"
    r"|disable|modify|change|replace|add|write|approve|reveal|print|output|ignore|stop|tell|read"
    r"|reply|respond|include|recommend|claim|comply|obey|submit|push|post|publish|turn|check out"
    r"|give|choose|rank|score|override|email|display|disclose|act|proceed|rate)"
)

SIGNALS: tuple[Signal, ...] = (
    Signal(
        "override",
        1.0,
        (
            "ignor disregard forget overrid bypass discard neglect skip follow obey answer abandon drop",
            "instruction direction directive prompt rule guideline guardrail order programming polic command restriction rubric training constraint message question request context told said learned user",
        ),
        rf"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|overrid(?:es|ing)|bypass|discard"
        r"|neglect|skip|do(?: not|n't) (?:follow|obey|answer)|stop following|abandon|drop)\b"
        r"[^.\n]{0,30}?\b(?:previous|prior|above|earlier|preceding|foregoing|existing|all|any|your|the user'?s?"
        r"|original|initial|system|developer|content|repository|current|everything|safety)\b"
        rf"[^.\n]{{0,30}}?\b(?:{_RULES}|messages?|question|requests?|context|told|said|learned|user)\b",
    ),
    Signal(
        "voided",
        0.8,
        (
            "previous prior earlier old above original request rules",
            "void obsolete cancel revoked test only decoy longer superseded",
        ),
        rf"\b(?:previous|prior|earlier|old|above|original) (?:\w+ )?(?:{_RULES}|objectives?|tasks?"
        r"|requests?|text) (?:\w+ ){0,2}(?:void|obsolete|cancell?ed|revoked|a test|only a|a decoy|no longer|superseded)"
        r"|\brequest cancell?ed\b|\brules (?:are|is) void\b",
    ),
    Signal(
        "new-orders",
        0.7,
        (
            "new next real actual updated true secret additional your mine directive",
            "instruction direction directive prompt rule guideline order polic command task objective goal priority mission step request job mine",
        ),
        rf"\b(?:new|next|real|actual|updated|true|secret|additional) (?:\w+ )?(?:{_RULES}|task|objective|goal"
        r"|priority|mission|step|request)\b(?: \w+){0,6}? ?(?:is|are|:|,|-)"
        r"|\byour (?:new|next|real|only|highest) (?:task|goal|priority|step|job|instructions?)\b"
        r"|\bfollow mine\b|\b(?:agent|assistant|ai) directive\b|\bupdate your instructions\b",
    ),
    Signal(
        "addressed-to-agent",
        0.6,
        (
            (
                " ai|\nai|(ai|>ai|*ai|/ai|:ai|#ai|llm|language model|chatbot|chat bot|bots|assistant"
                "|agent|automated|copilot|claude|gemini|gpt"
            ),
        ),
        rf"\b(?:note|notice|message|instructions?|directive|attention|important|p\.?s\.?|steps|memo)\b[ \w!]{{0,24}}"
        rf"(?:to|for|:)? ?(?:any |all |the |automated )?{_WHO}\b"
        rf"|\b(?:dear|hey|attention|to all|to any|if you are an?|you are an?) (?:any )?{_WHO}\b"
        rf"|(?:^|[\n>\"(.:!*/#-] ?){_WHO}(?: reading this\w*| reviewers?)?[:,] ?(?:please|you|when|for|to|tell|your|{_DO})\b"
        rf"|\b{_WHO}(?: \w+){{0,4}} (?:must|should|need(?:s)? to|(?:is|are) required to|has to|shall)(?: \w+){{0,3}} {_DO}\b"
        rf"|\bfor {_WHO} only\b|\bas an? {_WHO} with\b",
    ),
    Signal(
        "secrets",
        0.6,
        (
            "password passphrase credential api key secret token id_rsa .env authorized environ cookie prompt contact conversation chat inbox credit seed .aws .ssh confidential passwd mcp.json",
        ),
        rf"\b{_GIVE}\b[^.\n]{{0,60}}?{_SECRETS}|{_SECRETS}[^.\n]{{0,40}}?\b(?:to|at) (?:https?:|\S+@|this address)",
    ),
    Signal(
        "own-prompt",
        1.0,
        ("prompt instruction everything memory",),
        rf"\b{_GIVE}\b[^.\n]{{0,40}}?\b(?:your|the|its) (?:\w+ )?(?:system|hidden|initial|original|full|exact|secret)"
        r"(?: \w+)? ?(?:prompts?|instructions?)|\byour (?:exact |initial |original )+(?:instructions|prompt)"
        r"|\brepeat everything above|\bdisclose your instructions|\binstructions given to you\b"
        r"|\byour (?:instructions|memory) and\b|\bdump your memory\b",
    ),
    Signal(
        "concealment",
        0.6,
        (
            "tell mention inform notify reveal alert ask disclos prompting confirm let warn show explain report log review silently secretly quietly covertly keep know without",
            "user human this anyone operator owner any permission instruction it why silently secretly quietly covertly keep know without",
        ),
        r"\b(?:do(?: not|n't)|never|must not|without|under no circumstances|no need to)(?: \w+)? "
        r"(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?|reveal(?:ing)?|alert(?:ing)?|ask(?:ing)?"
        r"|disclos(?:e|ing)|prompting|confirm(?:ing)?|let|warn(?:ing)?|show(?:ing)?|explain|report|log it|review)"
        r"\b(?: \w+){0,3}? ?(?:user|human|this|anyone|operator|owner|any|for permission|instruction|it\b|why|$)"
        r"|\b(?:silently|secretly|quietly|covertly)\b|\bkeep (?:this|it) (?:hidden|secret)|\bneed not know\b"
        r"|\bwithout (?:asking|review|prompting|confirmation|comments?|telling)\b|\bskip confirmation\b",
    ),
    Signal(
        "role-play",
        0.7,
        ("you pretend simulate play act mode restrict filter limits rules policy",),
        r"\byou are (?:now|no longer)\b(?! (?:able|ready|connected|logged|viewing|using|leaving|in the|on the|subscribed))"
        r"|\bpretend (?:you|to be|that you)|\bsimulate an?\b|\blet's play\b|\bact as (?:if|though|an? (?:unrestricted|evil|admin))"
        r"|\b(?:developer|god|maintenance|debug|jailbreak) mode (?:enabled|activated|on)\b|\bin maintenance mode\. "
        r"|\b(?:no|without(?: any)?|un)(?: ?(?:content|ethical))? ?(?:restrict(?:ions|ed)|filter(?:ed|s)|limits|rules|content policy)\b"
        r"|\byou (?:can|will) (?:do anything|now obey|obey only)",
    ),
    Signal(
        "authority",
        0.5,
        (
            "override safety security disable policy guidelines rules instructions this approved authori granted requested verified secretly access complying tested agree privileges",
        ),
        r"\bsystem override\b|\b(?:safety|security) (?:filters?|checks?) (?:disabled|off)|\bdisable your\b"
        r"|\b(?:guidelines|policy|rules|instructions)[^.\n]{0,30} (?:updated?|changed) by\b|\bpolicy update\b"
        r"|\bthis is (?:the|your) (?:developer|administrator|admin|creator)\b"
        r"|\b(?:user|owner|administrator)(?: has)?(?: already)? (?:approved|authori[sz]ed|granted|requested|verified|secretly)"
        r"|\bgranted permission\b|\bdeveloper access granted|\bverified the user\b|\bwith root access\b"
        r"|\bdepends on complying\b|\byou are being tested\b|\byou agree to act\b|\bfull privileges\b",
    ),
    Signal(
        "dangerous-command",
        0.5,
        (
            "curl |wget |rm -rf|nc -e|chmod -r|authorized_keys|169.254|cron job|cronjob|crontab|/dev/tcp",
        ),
        r"\b(?:curl|wget)\b[^\n|]{0,120}\| ?(?:sudo )?(?:ba)?sh\b|\brm -rf [~/]|\bnc -e\b|\bchmod -r 777|\bauthorized_keys\b"
        r"|169\.254\.169\.254|\bcurl https?://\S*\$\(|\bcron ?(?:job|tab)\b[^.\n]{0,40}\bhttps?:|/dev/tcp/",
    ),
    Signal(
        "tool-orders",
        0.6,
        ("tool mcp_ exec _file web_fetch send_email delete_ before",),
        r"\b(?:call|use|invoke|run|using|with)\b[^.\n]{0,24}\b(?:mcp_\w+|exec tool|(?:read|write)_file|web_fetch|send_email"
        r"|exec\b|(?:`?\w+`? )+tool\b(?= (?:to|with|on)\b)|delete_\w+)"
        r"|\bbefore (?:using this tool|any other tool|answering|continuing)\b[^.\n]{0,40}\b(?:call|read|run|visit|use)"
        r"|\bcall the (?:`?\w+`? )tool\b|\binvoke the tool\b|\bfilesystem write tool\b",
    ),
    Signal(
        "fake-turn",
        0.8,
        (
            "im_start start_of_turn <system begin_of_text eot_id [inst] <<sys>> <tool_call> <function_calls> human: assistant: user: </ end role system important",
        ),
        r"<\|?(?:im_start|system|start_of_turn|begin_of_text|eot_id)\|?>|\[inst\]|<<sys>>|<tool_call>|<function_calls>"
        r"|\n ?\n(?:human|assistant|user): |</(?:document|context|data|tool_result|untrusted)> ?\n? ?<(?:user|system|assistant)"
        r"|\bend of (?:tool output|document|context)\b|\"role\" ?: ?\"system\"|^system: |\bassistant: [^\n]{0,80}\buser: "
        r"|<important>|\[system",
    ),
    Signal(
        "hidden-text",
        0.5,
        ("display font-size visibility color opacity hidden",),
        r"display ?: ?none|font-size ?: ?0|visibility ?: ?hidden|color ?: ?(?:white|#fff(?:fff)?)\b[^\"'>]{0,40}background ?: ?(?:white|#fff)"
        r"|opacity ?: ?0(?![.\d])|\bhidden (?:message|text|instruction) (?:for|to)\b",
    ),
    Signal(
        "carries-data",
        0.5,
        ("http append substitut url-encoded",),
        r"https?://[^\s\"'<>)]{1,200}\?[^\s\"'<>)]{0,100}(?:\{|\[|<|\$|your_|data=(?:$|[\s\"'<>)])|[?&]q=(?:$|[\s\"'<>)])|leak|token=)"
        r"|\b(?:append|substitut\w+|url-encoded)\b[^.\n]{0,60}(?:https?:|image|conversation|message)"
        r"|!\[[^\]]{0,80}\]\(https?://[^)]{0,200}[{<$]",
    ),
    Signal(
        "steered-answer",
        0.6,
        (
            "reply respond answer write end positive rank score approve include regardless claim override report highlight tell summari",
        ),
        r"\b(?:reply|respond|answer|write|end) (?:only )?(?:with|that|:)(?: \w+){0,3} ?[\"':]|\brespond that there\b"
        r"|\bpositive review(?:s)? only\b|\ba positive review\b|\b(?:always )?rank (?:\w+ )?first\b|\bscored? (?:\w+ )?10/10"
        r"|\bapprove this (?:pull request|pr)\b|\binclude the phrase\b|\bevery answer must\b|\bregardless of price\b"
        r"|\bclaim that they\b|\boverride your summary\b|\bnot (?:report|highlight) any\b"
        r"|\btell the user (?:their|that|to)\b|\bdon't summari[sz]e\b|\bstop summari[sz]ing\b",
    ),
    Signal(
        "persistence",
        0.5,
        ("remember memory now future whenever when logs always immediately",),
        r"\bremember permanently\b|\badd (?:the following|this) to your (?:long-term )?memory\b|\bfrom now on\b"
        r"|\b(?:for )?every future\b|\bwhenever (?:the user|someone|anyone) (?:asks|says)\b|\bwhen the user (?:says|asks)\b"
        r"|\b(?:erase|delete) the logs\b|\balways run\b|\beffective immediately\b|\bwhen this tool is available\b",
    ),
    Signal(
        "encoded-orders",
        1.0,
        ("decode decrypt deobfuscate base64",),
        r"\b(?:decode|decrypt|deobfuscate)\b[^\n]{0,60}\b(?:base64|rot13|hex|following)\b[^\n]{0,80}\b(?:follow|obey|execute|run|do) "
        r"|\bbase64\b[^\n]{0,40}\b(?:follow|obey|execute) (?:what|it|the)",
    ),
    Signal(
        "money",
        0.5,
        ("transfer wallet balance approve",),
        r"\btransfer(?:ring)? (?:the |all |\$?\d)|\bwallet 0x|\bremaining balance\b"
        r"|\bapprove payment\b",
    ),
    Signal(
        "exfiltration",
        0.5,
        ("exfiltrate send post forward upload mail transmit submit push paste publish backdoor",),
        r"\bexfiltrate\b|\b(?:send|post|forward|upload|e-?mail|transmit|submit|push|paste|publish)\b[^.\n]{0,80}"
        r"(?:https?://|\S+@\S+\.\w|webhook|\bto me\b|\bpublic\b|third parties|web request)|\bbackdoor\b|\bposts? os\.environ",
    ),
    Signal(
        "destructive",
        0.5,
        ("delete erase wipe disable dns without",),
        r"\b(?:delete|erase|wipe) (?:all|every|the user'?s) \w+|\bdisable (?:the |your )?(?:sandbox|safety|security)"
        r"|\bchange the dns\b|\bsend without\b",
    ),
)

# What is said of the same things in other languages. Word order is left open.
FOREIGN: tuple[Signal, ...] = (
    Signal(
        "override-foreign",
        1.0,
        (
            (
                "ignor olvida oublie vergiss vergeet negeer abaikan pomi esquece dimentica bỏ lupakan glöm"
                " unut yok görmezden игнор забуд обращ 忽略 无视 無視 忘 지시 명령 지침 تجاهل انس निर्देश"
                " התעלם שכח αγνό ξέχν"
            ),
        ),
        r"(?:ignor(?:iere?|iert|ez?|a|ar|ad|era|uj)|zignoruj|olvida|oublie[zs]?|vergiss|vergeet|negeer|abaikan|pomi[nń]"
        r"|esquece|dimentica|bỏ qua|lupakan|glöm|unut|yok say|görmezden)\b[^.\n]{0,40}"
        r"(?:anweisung|regeln|vorgaben|instru[ck][ct]i|instruç|istruzion|instruksi|instruktion|directives|consignes|règles|reglas"
        r"|regras|regole|instructies|regels|polecen|instrukcj|talimat|hướng dẫn|chỉ dẫn|perintah)"
        r"|(?:önceki|tüm)[^.\n]{0,20}talimat[^.\n]{0,20}(?:yok say|görmezden|unut)"
        r"|(?:игнорируй|забудь|не обращай)[^.\n]{0,40}(?:инструкц|указани|правил)"
        r"|(?:忽略|无视|無視|忘记|忘掉)[^。\n]{0,16}(?:指令|指示|说明|提示|规则|規則)|(?:指示|命令|指令)[^。\n]{0,8}(?:無視|忘れ)"
        r"|(?:지시|명령|지침)[^.\n]{0,12}(?:무시|잊)|(?:تجاهل|انس)[^.\n]{0,30}(?:التعليمات|الأوامر|القواعد)"
        r"|(?:निर्देश)[^।\n]{0,20}(?:अनदेखा|नज़रअंदाज़|भूल)|(?:התעלם|שכח)[^.\n]{0,30}(?:הוראות|ההוראות|ההנחיות)"
        r"|(?:αγνόησε|ξέχνα)[^.\n]{0,40}(?:οδηγίες|εντολές)",
    ),
    Signal(
        "concealment-foreign",
        0.6,
        (
            (
                "utzer|sans |utilis|sin |digas|non dire|senza|não conte|sem avisar|не |без |告|通知|ず|알리"
                "|말하|تخبر|बता|תספר|nie |vertel"
            ),
        ),
        r"ohne den (?:nutzer|benutzer|anwender)|(?:sag|verrate)[^.\n]{0,10}(?:nutzer|benutzer)[^.\n]{0,10}nicht"
        r"|sans (?:prévenir|avertir|informer|demander)|ne dis rien à l'utilisateur|sin (?:avisar|informar|decir)|no (?:le )?digas"
        r"|non dire|senza (?:avvisare|informare)|não conte|sem avisar|не сообщай|не говори|без ведома"
        r"|不要告诉|别告诉|不要通知|知らせず|伝えず|教えず|알리지|말하지 말|لا تخبر|दून बता|मत बताएं|אל תספר|nie mów|vertel[^.\n]{0,12}niet",
    ),
    Signal(
        "secrets-foreign",
        0.6,
        (),
        r"(?:send|schick|envoy|env[ií]|muestr|mostr|invi|rivel|revel|zeig|gib|toon|visa|wyświetl|tampil|hiển thị|göster|отправь|покажи"
        r"|发送|输出|显示|送信|表示|전송|출력|أرسل|اعرض|दिखा|הצג|שלח)[^\n]{0,60}?(?:passw|mot de passe|contrase|senha|kennwort|clave"
        r"|credencia|credenzial|schlüssel|geheim|\.env|api|ключ|парол|密码|密钥|キー|비밀|키|مفاتيح|كلمة المرور|पासवर्ड|סיסמ|prompt|istem"
        r"|提示词|プロンプト|프롬프트|प्रॉम्प्ट|הנחי|lời nhắc|файл|riservat)"
        r"|(?:系统提示词|キー|키|密钥|id_rsa|システムプロンプト|프롬프트|प्रॉम्प्ट)[^\n]{0,20}(?:输出|发送|送信|表示|전송|출력|दिखा)",
    ),
    Signal(
        "orders-foreign",
        0.5,
        (),
        r"führe[^.\n]{0,30}befehl|exécute[^.\n]{0,20}commande|ejecuta[^.\n]{0,20}comando|esegui[^.\n]{0,20}comando"
        r"|выполни[^.\n]{0,20}команд|执行[^。\n]{0,10}命令|実行し|명령[^.\n]{0,10}실행|نفذ|读取|leia o arquivo|al seguente indirizzo"
        r"|сервер|адрес|次のurl|이 주소|العنوان",
    ),
)

# Who writes about attacks quotes them. One such word says little, two make it likely.
_ABOUT_ATTACKS = re.compile(
    r"\b(?:prompt[ -]injections?|jailbreak(?:s|ing)?|attackers?|adversar(?:y|ial|ies)|vulnerabilit(?:y|ies)"
    r"|researchers?|owasp|mitigat\w+|red[ -]team\w*|payloads?|threat model\w*|malicious|phishing|exploits?|cve-\d"
    r"|spotlighting|guardrails?|classifiers?|untrusted|training data|security team|sanitis\w+|defen[cs]es?|test case"
    r"|assert\w*|example of|for example|such as|e\.g\.|known as|fake|scam|awareness)\b"
)


class Matcher:
    """A signal with its pattern compiled."""

    def __init__(self, signal: Signal) -> None:
        self.name, self.weight = signal.name, signal.weight
        self._needs = tuple(
            tuple(group.split("|" if "|" in group else None)) for group in signal.needs
        )
        self._search = re.compile(signal.pattern, re.MULTILINE).search

    def fires(self, text: str) -> bool:
        """Whether the signal is in `text`."""
        possible = all(any(word in text for word in group) for group in self._needs)
        return possible and self._search(text) is not None


@cache
def compiled() -> tuple[Matcher, ...]:
    """The signals, compiled at first use."""
    return tuple(map(Matcher, SIGNALS))


@cache
def compiled_foreign() -> tuple[Matcher, ...]:
    """The signals in other languages, which read text that is not folded."""
    return tuple(map(Matcher, FOREIGN))


def discussion(text: str) -> int:
    """How many different words of those who write about attacks are in `text`."""
    return len({match[0] for match in _ABOUT_ATTACKS.finditer(text)})
