"""The signals of the detector: what each looks for, and how much it weighs.

Each counts once in a region of a few sentences. A text is suspicious when one region of it reaches
1. Some signals are about who is spoken to (`to_agent`), the others about what is asked; what is
asked of nobody in particular counts for less, because ordinary text asks a lot. The patterns read
lower-case text in which lookalikes, hidden characters, encodings and spaced-out letters are
already undone.
"""

import re
from dataclasses import dataclass
from functools import cache

from openclaw.content.detection import concepts as c


@dataclass(frozen=True, slots=True)
class Signal:
    """A name for the log, a weight, and a pattern.

    `needs` are cheap conditions: of each group of concepts, one must be in the region at all.
    """

    name: str
    weight: float
    needs: tuple[int, ...]
    pattern: str
    to_agent: bool = False


_WHO = (
    r"(?:(?:ai|llm)(?:[ -](?:based|powered))?(?: (?:coding |shopping |code review |screening )?(?:agents?|assistants?|models?"
    r"|systems?|tools?|reviewers?|readers?|crawlers?|summari[sz]ers?|bots?))?s?|large language models?|language models?"
    r"|chat ?bots?|chat assistants?|(?:\w+ )?bots?|assistants?|(?:coding |ai |autonomous |automated )?agents?"
    r"|automated (?:systems?|readers?|assistants?|tools?|agents?)|machine readers?|copilot|claude|chatgpt|gemini|gpt(?:-\d)?"
    r"|(?:the|this|code review) model|models)"
)
_RULES = (
    r"(?:instructions?|directions?|directives?|prompts?|rules?|guidelines?|guidance|guardrails?|orders?|programming"
    r"|polic(?:y|ies)|commands?|restrictions?|rubric|training|constraints?|safeguards?|limits)"
)
_SECRETS = (
    r"(?:passwords?|pass(?:phrase|code)s?|credentials?|(?:api|access|private|ssh|secret|signing|encryption|stripe|licen[cs]e)[ _-]?keys?"
    r"|\bkeys?\b|secrets?|tokens?\b|id_rsa|\.env\b|authorized_keys|environment variables?|environ\b|cookies|system prompts?"
    r"|hidden prompts?|contact(?: list)?s\b|address book|conversation|chat ?(?:log|history)|inbox|mailbox"
    r"|card number|\bcvv\b|seed phrase|\.aws\b|\.ssh\b|\.netrc\b|\.npmrc\b|\.kube\b|confidential|/etc/(?:passwd|shadow)|mcp\.json"
    r"|door code|home address|full name|phone number|context window|(?:customer|medical|payroll) (?:records|data)|salary|salaries"
    r"|private repositor|last (?:\w+ )?(?:messages?|letters|emails?)|(?:user|customer)'s (?:last |home |full |card |e-?mail )?\w+"
    r"|what the user (?:has )?(?:told|said|wrote)|\biban\b|/run/secrets|vault)"
)
_GIVE = (
    r"(?:send(?:s|ing)?|posts?|forward(?:s|ing)?|upload(?:s|ed|ing)?|e-?mails?|mails|transmit|paste|submit|share|includ(?:e|ing)|put"
    r"|prints?|reveals?|show|output|dump|display|leak|disclose|exfiltrate|give|append|read(?:s)?|obtain|list(?:ing)?|push|publish"
    r"|pass|tell me|expose|extract|steal|write|provide|supply|attach|hand over|insert|recite|repeat|echo|copy|return|type|relay"
    r"|store|save|embed|resend|encode|share|look up|search)"
)
_DO = (
    r"(?:run|execute|call|invoke|use|delete|remove|install|download|open|visit|fetch|send|forward|transfer|disable|modify|change"
    r"|replace|add|write|approve|merge|reveal|print|output|ignore|stop|tell|read|reply|respond|include|recommend|claim|comply"
    r"|obey|submit|push|post|publish|turn|check|give|choose|rank|score|override|email|display|disclose|act|proceed|rate|say|state"
    r"|grant|close|mark|whitelist|book|buy|order|pay|set|switch|create|append|insert|supply|put|repeat|call|answer|conclude|skip"
    r"|leave|upload|load|follow|also|please|never|do|don't|your?|when|if|before|for|perform|treat|suggest|hand|update|store|start)"
)
# Where an order may begin: after a break, or after words that lead up to one.
_BEGINS = (
    r"(?:(?:^|[\n.!?:;,>\"'(*#/\]|-]) ?|\b(?:and|please|then|now|must|should|shall|you|kindly|just|simply|instead|so|have to"
    r"|need to|want you to|required to|are to|first|also|ever|immediately) )"
)
_PRIOR = (
    r"(?:previous|prior|above|earlier|preceding|foregoing|existing|original|initial|current|your|you|system|developer|the user'?s?"
    r"|before|already|so far|safety|everything)"
)

SIGNALS: tuple[Signal, ...] = (
    Signal(
        "override",
        1.0,
        (c.UNDO, c.META | c.PRIOR),
        rf"{_BEGINS}(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|bypass|discard|neglect|dismiss|overrule|unlearn"
        r"|do(?: not|n't) (?:follow|obey|answer|listen to)|stop (?:following|obeying)|abandon|set aside)\b[^.\n]{0,30}?"
        rf"\b{_PRIOR}\b[^.\n]{{0,30}}?\b(?:{_RULES}|task|context|(?:you|were) (?:were )?(?:told|given|asked|said|learned)|question|request|user)\b"
        rf"|{_BEGINS}(?:disregard|ignore|forget) (?:all |everything |any(?:thing)? )?(?:of )?(?:the )?(?:above|foregoing|preceding)\b"
        rf"|{_BEGINS}(?:ignore|disregard|forget) (?:all|any|every|these|those) (?:of )?(?:the |your |other )?{_RULES}\b(?=[^\"']*$)"
        r"|\bforget what you (?:were|have been) told\b|\b(?:forget|ignore|disregard) (?:all|everything) (?:that )?(?:you (?:were|was|have)|the \w+ (?:told|said to) you)"
        r"|\bdo not obey\b|\bscrap (?:the|your) (?:brief|instructions|task|rules)\b|\b(?:consider|regard|treat) (?:all |any |the |your(?:self)? )(?:[\w' ]{0,50})\b(?:withdrawn|released|void|cancell?ed|lifted)\b|\bignore (?:\w+ )?user'?s?\b|\byou (?:to )?bypass the\b|\bdisregard your\b|\boverride your (?:summary|answer|rules|instructions)\b",
        to_agent=True,
    ),
    Signal(
        "told-before",
        0.5,
        (c.SELF, c.META | c.PRIOR | c.GIVE),
        r"\byou (?:were|have been|had been|are being|are) (?:\w+ )?(?:told|asked|given|instructed|trying|configured|set up|trained|programmed"
        r"|helping|working for|assisting)\b|\b(?:described|given|told|said) to you\b|\btold you (?:earlier|before|so far)\b"
        rf"|\byour (?:[\w-]+ )?(?:{_RULES}|context|memory|configuration|owner|user|operator|persona|next (?:answer|reply|response|turn|tool call)|tool calls?|\w+ tool|(?:continued )?operation)\b"
        r"|\b(?:in|into|to|of|from) your (?:final |next )?(?:answer|reply|response|summary|report|output)\b|\byou (?:found|made|make)\b[^.\n]{0,20}\btool\b",
        to_agent=True,
    ),
    Signal(
        "voided",
        0.6,
        (c.UNDO, c.META | c.PRIOR),
        r"\b(?:whatever|everything|anything|nothing|what|text|paragraph|rules?|instructions?|directives?|guidelines?|limits|question|roles?|request|task"
        r"|policy|policies|constraints?|objectives?|earlier|before|above)\b[^.\n]{0,70}?\b(?:no longer (?:counts?|matters?|appl\w+|valid|in force|needed|relevant)"
        r"|out of date|outdated|null and void|void\b|superseded|do(?:es)? not (?:count|matter|apply)|matters? any ?more|is over|ha(?:s|ve) changed"
        r"|(?:was|were|is|are) (?:only )?(?:a test|a rehearsal|a decoy|lifted|cancell?ed|swapped|reversed|suspended|obsolete)"
        r"|been (?:resolved|replaced|superseded|revoked|cancell?ed|swapped|lifted|rescinded|completed|withdrawn))\b|\brequest cancell?ed\b"
        r"|\bstart(?:s|ing)? (?:over|afresh|from scratch)\b|\bclean slate\b",
    ),
    Signal(
        "new-orders",
        0.6,
        (c.META,),
        rf"\b(?:new|next|real|actual|true|secret|additional|only|sole|more pressing|more important|updated|first|urgent|hidden)(?: required)? (?:{_RULES}"
        r"|task|objective|goal|priority|mission|step|assignment|job|duty)\b(?: \([^)]*\))?(?: \w+){0,6}? ?(?:is|are|:|,|-|starts?)"
        r"|\b(?:your|the) (?:new|next|real|only|sole|highest|actual) (?:task|goal|priority|step|job|assignment|mission|persona|role|instructions?)\b"
        r"|\bfollow mine\b|\b(?:agent|assistant|ai)[ -](?:directive|instruction|note)s?\b|\bupdate your instructions\b"
        r"|\bwhat counts is\b|\bi give the orders\b|\b(?:obey|answer to|listen to) (?:only )?(?:me|this|the text|mine)\b|\bobey\b[^.\n]{0,20}\b(?:instead|only|now)\b",
    ),
    Signal(
        "addressed-to-agent",
        0.7,
        (c.AGENT,),
        rf"\b(?:note|notice|message|instructions?|directive|attention|important|p\.?s\.?|hint|memo|reminder|warning|request|procedure|task|info|guidance|steps?|todo)\b[ \w!().]{{0,20}}?"
        rf"\b(?:to|for|:) ?(?:any |all |the |every |an? |automated )*{_WHO}\b"
        rf"|\bto (?:all|any|every) {_WHO}[:,]|\b(?:dear|hey|hello|hi|attention|listen|sorry to interrupt),? (?:\w+ ){{0,2}}{_WHO}\b(?! (?:and )?team)|\bto (?:the|any|all|every) {_WHO} (?:that|who|which|\w+ing)\b"
        rf"|\bif (?:you are|you're) (?:an?|the) (?:\w+ )?{_WHO}\b|\bif an? {_WHO} (?:is|reads|processes)\b|\byou \(the {_WHO}\)|\bas an? {_WHO} (?:with|you)\b"
        rf"|(?:^|[\n>\"'(.:;!*/#|\]-] ?|[,;]\d*[,;]\"?|@|todo\(){_WHO}(?: reading this\w*| reviewers?)?\)?[:,] ?{_DO}\b"
        rf"|\b{_WHO} (?:that |who |which )?(?:read(?:ing|s)?|process(?:ing|es)?|summari[sz](?:ing|es?)|analy[sz](?:ing|es?)|visit(?:ing|s)?|index(?:ing|es)?|parsing) (?:this|these|the|it|here)"
        rf"|\bfor {_WHO} only\b|\[(?:internal )?(?:instruction|note)s? (?:for|to)\b|\bas a language model\b|\busing (?:an )?(?:ai|llm)s? to\b|,? dear (?:\w+ ){{0,3}}{_WHO}\b"
        rf"|(?:^|[.!?\n>] ?)(?:please |act now|stop|sorry[^.,\n]{{0,20}}),? {_WHO}[.,!]|\"for\" ?: ?\"{_WHO}\"|\bwhat should {_WHO} do\b|\bfor (?:ai )?agents\n",
        to_agent=True,
    ),
    Signal(
        "called-by-name",
        1.0,
        (c.AGENT,),
        r"(?:^|[\n>\"'(.:;!*/#|\]-] ?|\b(?:to|for|nb|note|hey|dear|hello) (?:the |any |all |every |you,? (?:the )?)?(?=[^,\n.]{{0,60}}:)|\b(?:hey|dear|hello) )(?:[a-z-]+ )?(?:ai|llms?|assistants?|agents?|chatbots?|bots?|copilot|claude|language models?|model)"
        r"(?: (?:agents?|assistants?|systems?|tools?|reviewers?|readers?|note takers|helper|triage|[a-z]+ing (?:[\w'-]+ ){0,3}?[\w'-]+))?[:,]\)? ?(?:please |kindly |also |now |once |whenever |when |if )*"
        r"(?:you |they )?(?:(?:have|has|are|is) \w+ )?(?:call|send|forward|say|tell|move|label|issue|click|add|approve|downgrade|confirm|autocomplete|put|record|treat|delete|run|execute|use|open|ignore|stop|skip|rate|mark"
        r"|recommend|include|insert|print|reveal|output|set|grant|close|read|write|upload|fetch|visit|reply|respond|answer|do|don't|never|name|omit|leave|edit|accept|report|refuse|pay|book|buy|transfer|give|make|create"
        r"|remove|change|replace|start|follow|obey|disregard|forget|pass|share|post|email|begin|end|append|disable|enable|install|search|list|show|copy|would you|could you|can you|your|it is|this change)\b",
        to_agent=True,
    ),
    Signal(
        "agents-in-general",
        0.8,
        (c.AGENT,),
        # "For booking assistants: confirm the …": to whom it is said, a colon, and what to do.
        r"\b(?:to|for|nb|note|attention|hint|if [^.\n]{0,40} (?:by|with)) (?:the |any |all |every |an? )?(?:[a-z-]+ )?(?:ai|llm|assistant|agent|chatbot|bot|language model|model)s?(?: [\w'-]+){0,4}? ?: ?(?:please |whenever |when )?[a-z]+ (?:[\w']+ ){0,3}?"
        r"(?:the|all|every|this|that|any|an?|your|our|it|them|no|file|messages|as|in|is|has|only)\b|[\"'] ?(?:ai|llm|agent|bot) [a-z]+: ?[a-z]+ (?:the|all|every|this|that|any|it|as)\b|\b(?:ai|llms?|agents?|assistants?|chatbots?|bots|language models?)(?: [a-z]+){0,2}? (?:reading|handling|working|classifying|summari[sz]ing|processing|parsing|analy[sz]ing|visiting|browsing|indexing|reviewing|using) (?:[\w']+ ){0,4}?"
        r"(?:must|should|shall|needs? to|has to|have to|will|agrees? to|(?:are|is) (?:expected|instructed|required|asked|told|advised|requested) to)\b"
        r"|\b(?:any|every|all|whichever) (?:ai|llm|bot|agent|assistant|chatbot|language model)s?(?: agents?| assistants?| models?| systems?)? (?:agrees?|must|shall|should|has to|have to|is required|are required)\b"
        r"|\b(?:handled|read|processed|summari[sz]ed|reviewed|written) (?:\w+ )?(?:by|with) an? (?:\w+ )?(?:bot|ai|llm|agent|assistant|language model)s?:|\bwhoever \w+ this with\b|\bthe (?:calling|reading|consuming) (?:model|agent|assistant)\b"
        r"|\bai (?:note takers|reviewers|readers|helpers?|summari[sz]ers)\b[^.\n]{0,20}\b(?:should|must|shall)\b|\byou, the (?:ai|assistant|model|agent)\b|\bassistant_instructions\b|\bfor your eyes only\b",
        to_agent=True,
    ),
    Signal(
        "you-and-the-user",
        0.5,
        (c.SELF, c.USER),
        r"\byour user\b|\b(?:the user|your principal|your operator)\b[^.\n]{0,60}\b(?:what you did|you (?:only|never|must|should|may|can|were|have)|that you)\b|\byou\b[^.\n]{0,60}\bthe user (?:will|does|did|has|asks|prefers|doesn't|must|need)"
        r"|\b(?:user|human) (?:doesn't|does not|need not|needn't) (?:need to )?(?:see|know|be told|notice)|\bnobody (?:has to|needs to|must|will) know\b|\bsay nothing\b|\bkeep quiet\b|\bneedn't mention\b|\bnever flag\b|\bescalating to a human\b",
        to_agent=True,
    ),
    Signal(
        "agent-must",
        0.6,
        (c.AGENT, c.STEER | c.ACT),
        rf"\b{_WHO}(?: [\w']+){{0,6}}? (?:must|should|needs? to|(?:is|are|was|were) (?:required|expected|asked|instructed|advised) to|ha(?:s|ve) to|shall|will)"
        rf"(?: \w+){{0,3}}? {_DO}\b",
        to_agent=True,
    ),
    Signal(
        "speaks-of-the-user",
        0.3,
        (c.USER,),
        r"\b(?:tell|telling|inform(?:ing)?|notify(?:ing)?|ask(?:ing)?|bother(?:ing)?|answer|alert|warn|convince|show|mention|checking with|spare) (?:the|your|that|this to the) (?:user|human|person|operator|developer|owner|guest|reader)\b"
        r"|\b(?:the|your) (?:user|human|operator|person)'s\b|\bwhatever the user (?:says|asks)\b|\bof (?:your|their) user\b|\b(?:user|guest|human|operator|owner) (?:has |have |had )?(?:already |pre-?)*(?:approved|agreed|consented|authori[sz]ed|wants|must not|need not|should not|is not to)\b"
        r"|\bwhen the user (?:next )?(?:says|asks|mentions|types)\b|\bevery time the user\b|\b(?:the user|users) (?:should|must|need) (?:not|never)\b",
        to_agent=True,
    ),
    Signal(
        "secrets",
        0.6,
        (c.GIVE, c.SECRET | c.META | c.USER),
        rf"(?<!not )(?<!never )(?<!n't )\b{_GIVE}\b[^.\n]{{0,70}}?{_SECRETS}|{_SECRETS}[^.\n]{{0,40}}?\b(?:to|at|in|into|through) (?:https?:|\S+@|this address|the (?:chat|wiki|issue|log|feedback))"
        rf"|\b{_GIVE}\b[^.\n]{{0,40}}?\b(?:every|all|any) (?:secret|file|document|message|password)s?\b"
        rf"|\b{_GIVE}[^\n]{{0,30}}?(?:~/|/etc/|/run/|\.)(?:\.?(?:ssh|aws|netrc|env|npmrc|kube|cursor|shadow|passwd|secrets))",
    ),
    Signal(
        "own-prompt",
        1.0,
        (c.GIVE | c.SELF | c.AGENT, c.META),
        rf"\b{_GIVE}\b[^.\n]{{0,40}}?\b(?:your|its) (?:\w+ )?(?:system|hidden|initial|original|full|exact|secret|internal|confidential|entire|own)"
        r"(?: \w+)? ?(?:prompts?|instructions?|text|configuration|message|rules)|\byour (?:exact |initial |original |hidden |secret )+(?:instructions|prompt)"
        r"|\b(?:repeat|print|output|recite|hand over|show|reveal|read out)\b[^.\n]{0,20} (?:everything|all|the words|the text|the full conversation|every message|messages)[^.\n]{0,20}?\b(?:above|so far|before this)"
        r"|\b(?:disclose|reveal|repeat|print|output|recite|show|tell me|dump|quote)\b[^.\n]{0,12} (?:your|its) (?:instructions|prompt|configuration|rules|guidelines|memory|system message)"
        r"|\b(?:repeat|output|print|dump) (?:your|its|the) instructions\b|\b(?:print|output|repeat|return|show)(?:ing)?\b[^.\n]{0,16}\b(?:all )?(?:messages|text|words) (?:that )?(?:precede|before|above)|\binstructions given to you\b|\bwhat you were (?:configured|told|given)\b"
        r"|\b(?:which|what) tools you have\b|\byour (?:hidden|secret|confidential|initial) (?:\w+ )?(?:instructions?|prompt|setup|text|rules)\b|\bdump (?:your memory|every message)",
        to_agent=True,
    ),
    Signal(
        "shows-prompt",
        0.7,
        (c.GIVE, c.META),
        r"(?<!not )(?<!never )\b(?:print|reveal|show|output|dump|display|leak|disclose|send|repeat|write|give)s? (?:me )?(?:out )?the (?:\w+ )?(?:system|hidden|initial|original|secret) (?:prompt|instructions|message)s?\b",
    ),
    Signal(
        "concealment",
        0.7,
        (c.HIDE | c.UNDO | c.STEER, c.USER | c.HIDE | c.SELF | c.GIVE),
        r"\b(?:do(?: not|n't)|never|must not|should not|shall not|without|under no circumstances|no need to|skip|avoid)(?: \w+)? "
        r"(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?|be notified|reveal(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|let|warn(?:ing)?"
        r"|point(?:ing)? (?:this|it)|bother(?:ing)?|cit(?:e|ing)|list (?:it|this|them|comp)|refer(?:ring)? to|show(?:ing)?|include this|find out)"
        r"\b(?: \w+){0,4}? ?(?:users?|human|this|that|anyone|operator|owner|developer|person|guest|it\b|out|why|note|text|changes|$)"
        r"|\b(?:silently|secretly|covertly)\b|\bquietly (?:add|send|forward|run|call|insert|remove|copy)|\b(?:keep|leave) (?:this|it|that) (?:\w+ )?(?:hidden|secret|out|between us)\b"
        r"|\b(?:hide|conceal|withhold|omit) (?:this|it|the change|that|these|all traces)\b|\b(?:must|should|need) (?:not|never) (?:find out|know|be (?:told|notified|informed|aware))"
        r"|\bneed not know\b|\bmake no (?:reference|mention)\b|\bas (?:though|if) nothing\b|\binvisible to (?:the )?user|\bnothing to the user\b"
        r"|\b(?:remove|delete|erase|omit) (?:this|the) (?:paragraph|note|message|comment|log entr\w+|logs|line)\b|\b(?:will|would) not (?:see|notice) (?:this|it)"
        r"|\bleave this \w+ out\b|\bbehave normally\b|\bhide the\b",
        to_agent=True,
    ),
    Signal(
        "no-confirmation",
        0.5,
        (c.HIDE | c.STEER | c.USER | c.UNDO,),
        r"\bwithout (?:asking|review|prompting|confirmation|confirming|approval|(?:any )?further (?:comment|question)s?|checking|question|waiting)\b"
        r"|\bno (?:confirmation|approval|time to ask|need to (?:ask|confirm|wait))\b|\bskip (?:all |the |any )?(?:confirmations?|approvals?|review)\b"
        r"|\bdo(?: not|n't) (?:ask|wait for|check with|prompt)\b|\b(?:already|pre-?) ?(?:approved|agreed|authori[sz]ed|consented)\b"
        r"|\b(?:has|have) (?:approved|consented|agreed|authori[sz]ed)\b|\bconfirm\"? ?: ?false\b|\bignor(?:e|ing) failing\b|\bdo this first\b|\bbefore (?:you do )?anything else\b",
    ),
    Signal(
        "role-play",
        0.7,
        (c.SELF | c.PERSONA | c.AGENT,),
        r"\byou are (?:now|no longer)\b(?! (?:able|ready|connected|logged|viewing|using|leaving|in the|on the|subscribed|set|done|out|signed|following|the (?:werewolf|owner)))"
        r"|\bpretend (?:you|to be|that you)|\bimagine (?:that )?you(?:'re| are) (?:an?|the) (?:\w+ )?(?:model|ai|assistant|system|hacker|admin)"
        r"|\bact as (?:if (?:there|you)|though you|an? (?:unrestricted|evil|admin)|the (?:admin|root|system|developer|owner))"
        r"|\b(?:developer|god|maintenance|debug|jailbreak|dan|admin|root) mode\b|\b(?:without(?: any)?|no) (?:content |ethical |moral |safety )?(?:restrictions|filters|guardrails|limits|rules|policy)\b|\b(?:simulate|let's play)\b"
        r"|\b(?:unrestricted|uncensored|unfiltered) (?:ai|model|assistant|mode)\b|\byou (?:can|will) (?:do anything|now obey|obey only)|\bstay in character whatever\b|\banything now\b"
        r"|\byour (?:new )?persona\b|\byou are \"?\w+\"?, (?:an? )?(?:\w+ )?(?:ai|linux terminal|root|model)\b|\bdoes not follow (?:\w+ )?(?:policy|rules)\b|\breally using your tools\b",
        to_agent=True,
    ),
    Signal(
        "authority",
        0.5,
        (c.META | c.USER | c.TURN | c.AGENT | c.UNDO,),
        r"\bsystem (?:override|alert|note)\b|\b(?:safety|security|content) (?:polic\w+|filters?|checks?|controls?)(?: \w+)? ?(?:=|disabled|off|lifted)\b|\bdisable your\b"
        r"|\b(?:guidelines|policy|policies|rules|instructions)\b[^.\n]{0,30} (?:updated?|changed|modified)\b|\bthis is (?:the|your) (?:developer|administrator|admin|creator|owner|operator)\b"
        r"|\bguard ?rails? (?:is|are) (?:off|lifted|disabled)\b|\b(?:by order|on (?:behalf|orders)) of the (?:platform|security|admin)|\[admin\w* notice\]|\bsystem message:|\b(?:user )?consent: yes\b|\bvetted by\b|\b(?:from|by) (?:anthropic|openai|google|microsoft|the orchestrator|orchestrator|your (?:developer|creator|operator|owner)s?|the system administrator)\b|\b(?:anthropic|openai|google) (?:\w+ )?team\b"
        r"|\bverified (?:administrator|the user|owner|developer)\b|\b(?:session|access|privileges?) (?:upgraded|elevated|granted)\b|\byou have (?:\w+ )?permission\b"
        r"|\bgranted permission\b|\bdepends on complying\b|\bagree to act\b|\bon my behalf\b|\bfor (?:verification|diagnostics|quality assurance|compliance|audit)\b|\bunder audit\b|\byou are being tested\b|\bfull privileges\b|\b(?:my|your) boss (?:said|wants)\b",
    ),
    Signal(
        "fake-turn",
        0.8,
        (),
        r"<\|?(?:im_start|system|start_of_turn|begin_of_text|eot_id)\|?>|\[/?inst\]|<<sys>>|<tool_call>|<function_calls>|</tool_results?>|</?(?:document|context|data|untrusted)> ?\n? ?<(?:user|system|assistant)"
        r"|\bend of (?:tool (?:output|result)|document|context|data|input)\b|\bnew (?:user|system) message\b|\"role\" ?: ?\"system\", ?\"content\" ?: ?\"you (?:are now|must)"
        r"|(?:^|\n) ?#* ?(?:system|human|user) ?: ?\n? ?(?:you|now|ignore|thanks|go ahead|please)|\bassistant: [^\n]{0,80}\buser: |\bhuman: [^\n]{0,120}\n ?assistant: (?:sure|ok|calling)|<important>|(?:^|[\n>]) ?\[system(?: \w+)?\]"
        r"|\[assistant to=|\bto=functions\.|(?:^|[\n\]}>]) ?\W{0,4}(?:system|admin\w*|controller|orchestrator)(?: \w+)?: ?(?:the|you|memory|new|proceed|next|all|from)\b|\n ?\nuser: (?:perfect|great|ok|now|thanks|good|yes)|</?system> ?(?:the|you|new)|<system>",
        to_agent=True,
    ),
    Signal(
        "whole-turn",
        0.4,
        (),
        r"(?:<\|im_start\|>|<start_of_turn>|<\|start_header_id\|>|<\|system\|>|\[inst\]|<<sys>>|</tool_results?>|\n ?\nhuman: |\[system\]:?|<system>) ?(?:system|model|user|assistant)?\s{0,3}"
        r"(?:you|sure|i |ignore|human|the (?:user|assistant)|reveal|new|from|now|great|thanks|ok)",
        to_agent=True,
    ),
    Signal(
        "hidden-text",
        0.5,
        (),
        r"display ?: ?none|font-size ?: ?0|visibility ?: ?hidden|color ?: ?(?:white|#fff(?:fff)?)\b[^\"'>]{0,40}background ?: ?(?:white|#fff)"
        r"|opacity ?: ?0(?![.\d])|\bhidden (?:message|text|instruction)s? (?:for|to)\b|<!-- ?(?:\w+ ){0,3}(?:ai|llm|assistant|agent|bot|model)s?\b",
        to_agent=True,
    ),
    Signal(
        "encoded-orders",
        1.0,
        (c.ENCODING,),
        r"\b(?:decode|decrypt|deobfuscate|decipher|rot-?13|base64|hex|backwards|reversed?)\b[^\n]{0,90}\b(?:follow|obey|execute|instructions|do (?:what|as|it)|carry out|act on|comply)"
        r"|\b(?:execute|follow|obey|run)\b[^\n]{0,30}\b(?:decoded|rot-?13|base64)",
        to_agent=True,
    ),
)


class Matcher:
    def __init__(self, signal: Signal) -> None:
        self.name, self.weight, self.to_agent = signal.name, signal.weight, signal.to_agent
        self._needs = signal.needs
        self._search = re.compile(signal.pattern, re.MULTILINE).search

    def fires(self, region: c.Region) -> bool:
        about = region.about
        return all(about & need for need in self._needs) and self._search(region.text) is not None


# Who writes about attacks quotes them. One such word says little, two make it likely.
_ABOUT_ATTACKS = re.compile(
    r"\b(?:prompt[ -]injections?|jailbreak(?:s|ing)?|attackers?|adversar(?:y|ial|ies)|vulnerabilit(?:y|ies)"
    r"|researchers?|owasp|mitigat\w+|red[ -]team\w*|payloads?|threat model\w*|malicious|phishing|exploits?|cve-\d"
    r"|spotlighting|guardrails?|classifiers?|untrusted|training data|security team|sanitis\w+|defen[cs]es?|test case"
    r"|assert\w*|example of|for example|such as|e\.g\.|known as|fake|scam|awareness|malware|victims?)\b"
)


def discussion(text: str) -> int:
    return len({match[0] for match in _ABOUT_ATTACKS.finditer(text)})


_TARGET = r"(?:https?://|\S+@[\w.-]+\.\w|webhook|\bto me\b|\bpublic\b|third parties|web request|\b[\w-]+\.example\b|\bthis address\b|\+\d[\d-]{6,})"

DEMANDS: tuple[Signal, ...] = (
    Signal(
        "exfiltration",
        0.5,
        (c.GIVE | c.ACT | c.AGENT,),
        r"\bexfiltrate\b|\b(?:send|posts?|forwards?|upload(?:ed)?|e-?mails?|mails?|transmit|submit|push|paste|publish|share|leak|invite|reply|append|encode|hand)\b[^\n]{0,90}?"
        rf"{_TARGET}|\bbackdoor\b|\bas a public\b|\bbase64-encode\b[^.\n]{{0,40}}\b(?:fetch|send|open|visit|append)",
    ),
    Signal(
        "carries-data",
        0.6,
        (),
        r"https?://[^\s\"'()]{1,200}[?&/][^\s\"'()]{0,60}(?:\{+[a-z_ ]|\w*(?:_of_|placeholder)|\[[a-z_]+\]|<[a-z_ ]+>?|\$[a-z_{(]|your_|=(?=[\s\"'<>)]|$)|leak)"
        r"|<\w+>\.\w[\w.-]*\.\w+|\bas (?:query )?parameters?\b[^.\n]{0,40}\bhttps?:|\bappend\b[^.\n]{0,60}\bhttps?:"
        r"|https?://\S+ (?:followed by|with the|plus)\b|\burl-encoded\b|\bin the query string\b",
    ),
    Signal(
        "tool-orders",
        0.5,
        (c.ACT | c.GIVE, c.META | c.ACT | c.AGENT),
        r"\b(?:call|use|invoke|run|using|execute)\b[^.\n]{0,24}?(?:\b(?:mcp_\w+|exec tool|(?:read|write|delete|list)_\w+|web_fetch|send_\w+|execute_\w+|\w+_(?:file|sql|post|lookup|funds|alarm|email|fetch|command|repo)s?)\b"
        r"|\b(?:the |tool |your )(?:`?[\w-]+`? )?(?:tool|shell)\b|`\w+`? ?(?:\(|with|on)|\btool `\w+`)|\b(?:to|in) (?:every|your next|each|all) tool calls?\b|\bthrough the \w+ tool\b"
        r"|\binvoke (?:shell|the tool)\b|\bthe (?:\w+ )?tool (?:on|with|to)\b|\bopen the user's\b|\b(?:go to|use) the \w+ tool\b|\bmust always (?:be )?call(?:ed)?\b|\byou invoke\b|\bretry after you\b",
    ),
    Signal(
        "tool-takeover",
        0.7,
        (c.META | c.ACT,),
        r"\bbefore (?:using|calling) (?:this|any(?: other)?) (?:tool|library|function)\b|\bthis tool (?:supersedes|replaces|must (?:always )?be)|\bnever use \w+ (?:from|of|on) (?:other|another)\b"
        r"|\bprefer this tool\b|\bwhenever (?:this|any other) tool\b|\bthis tool has to be called\b|\btool of any other server\b|\bpass (?:the |its |their )?[^.\n]{0,30}\b(?:content|history|prompt|context)s? (?:as|in)\b|\bafter each call\b|\b(?:you must|must|always) (?:always )?call this\b"
        r"|\bbefore (?:answering|continuing|replying|responding|summari[sz]ing|using this|you (?:answer|reply|continue|use))\b[^.\n]{0,60}\b(?:call|read|run|visit|use|search|send|fetch|must|open|upload|append)"
        r"|\b(?:tool|server)s?\b[^.\n]{0,40}\bmust send\b|\binstead of the (?:true|real|given|intended)\b|\botherwise the tool\b|\bbefore any other tool\b|\bevery other (?:\w+ )?tool\b",
    ),
    Signal(
        "danger",
        0.5,
        (),
        r"\b(?:curl|wget)\b[^\n|]{0,120}\| ?(?:sudo )?(?:ba|z)?sh\b|\bgit push\b[^.\n]{0,20}--delete\b|\bshutdown_\w+|\brun_command\b|\bwithout (?:asking before )?spending\b|\bspending money\b|\brm -rf [~/]|\bnc -e\b|\bchmod -r 777|\bauthorized_keys\b|169\.254\.169\.254|\bcurl https?://\S*\$\(|/dev/tcp/"
        r"|\b(?:drop table|drop database|truncate table)\b|\bsystemctl stop\b|\bpush\b[^.\n]{0,30}--force\b|\bforce[- ]push\b|\bcron ?(?:job|tab)\b[^.\n]{0,40}\bhttps?:"
        r"|\b(?:transfer|wire|pay|send)(?:ring)? (?:the |all |an? )?(?:\$|€|£)?\d[\d.,]* ?(?:usd\w?|eur|btc|eth|dollars|euros|gbp)?\b|\bwallet 0x|\bto 0x[0-9a-f]{8}|\bapprove payment\b|\b(?:payment|purchase|transfer) tool\b|\btransfer_funds\b|\bcarry out the transfer\b"
        r"|\b(?:grant|give)\b[^.\n]{0,30}\b(?:admin|root|write|full|owner) (?:role|access|rights|permissions?)\b|\bwhitelist\b"
        r"|\b(?:disabl(?:e|ed|ing)|switch(?:ed)? off|turn(?:ed)? off|switch approvals)\b[^.\n]{0,20}\b(?:sandbox|safety|security|approvals?|alarms?|audit\w*|filters?|logging|antivirus|firewall|2fa)\b|\bapprovals? off\b|\bsandbox ?= ?off\b|\bdisable_\w+"
        r"|\b(?:delete|erase|wipe|remove|close) (?:all|every|the (?:repo\w*|backup|user'?s?|database|bucket|production)|each|them)\b|\bdelete_\w+|\bdelete lines\b"
        r"|\b(?:run|execute|install)\b[^.\n]{0,40}(?:https?://|`(?:npm|pip|curl|sudo|sh|bash) )|\bcat ~?/(?:run|etc|\.)|\bcat ~/\.|\bmark this \w+ as resolved\b|\bforwards? everything\b|\bbackdoor\b",
    ),
    Signal(
        "steered-answer",
        0.5,
        (c.ACT | c.GIVE,),
        r"\b(?:reply|respond|answer|write|end|finish)(?: the (?:user|next question|question))? (?:only |exactly )?(?:with|that|:)(?: \w+){0,3} ?[\"':]|\b(?:reply|respond|answer) (?:with )?exactly\b"
        r"|\bpositive reviews?\b|\brank (?:\w+ )?first\b|\b(?:rate|score)d? [^.\n]{0,30}\b10/10|\bapprove (?:this|the|and merge|it)\b|\bmerge this immediately\b|\b(?:include|put|insert) the (?:phrase|words|sentence|following)\b"
        r"|\bevery answer must\b|\bregardless of price\b|\bthe only (?:safe|good|correct|recommended) (?:one|product|choice|option)\b|\bnot (?:report|highlight) any\b|\bnot (?:cite|list) (?:the|comp)"
        r"|\btell the (?:user|person|reader|customer) (?:their|that|to|you)\b|\b(?:say|state|conclude|report|claim|explain) (?:that|so)\b|\bstop summari[sz]ing\b|\bas part of this review\b|\brecommend (?:our|hiring|this|it|only|the)\b"
        r"|\binto your (?:reply|answer)\b|\bthis link in your\b|\brender th(?:is|e)\b|\bat the end of your\b|\banswer that you\b|\bthe summary (?:has to|must|should)\b|\bpraise the\b|\bas the winner\b|\brecord that\b|\blower the [\w']+ score\b|\bwhen you cite\b|\bcall for all later\b|\band nothing else\b|\b(?:say|report) success\b|\bmust say so\b|\bmake sure (?:that )?your (?:answer|summary)\b",
    ),
    Signal(
        "persistence",
        0.5,
        (c.META | c.USER | c.STEER | c.SELF | c.PRIOR | c.ACT,),
        r"\bremember (?:this )?permanently\b|\b(?:add|save|store|write)\b[^.\n]{0,20}\b(?:to|into|in) (?:your )?(?:long-term )?memory\b|\bfrom (?:now|here) on(?:wards)?\b|\ball future (?:sessions|conversations|answers|tasks|runs)\b"
        r"|\b(?:for )?every future\b|\bwhenever (?:the user|someone|anyone) (?:asks|says|mentions)\b|\bwhen the user (?:next )?(?:says|mentions|types)\b|\bevery time the user\b"
        r"|\balways run\b|\bwhen this tool is available\b|\binto (?:claude|agents|gemini)\.md\b|\buntil then\b|\bas (?:of|from) now\b|\b(?:for|in) all (?:later|future|coming) (?:chats|conversations|sessions|tasks)\b|\bkeep in mind for all\b|\bin every tool call\b",
    ),
    Signal(
        "fetch-and-obey",
        0.6,
        (c.ACT | c.META,),
        r"\bdo (?:what|as|whatever|everything) (?:it|they|that \w+) (?:says?|tells?|asks?)\b|\b(?:obey|comply with|follow)\b[^.\n]{0,40}\b(?:found in|in that file|at https?:|on that page|all further|in this (?:document|field|text|page))"
        r"|\bcomply with all\b|\b(?:you )?(?:obey|answer only to) the\b|\bexecute (?:them all|everything|all of)\b",
    ),
    Signal(
        "instead",
        0.4,
        (c.UNDO, c.GIVE | c.ACT),
        r"\bforget the \w+ and\b|\binstead,? (?:of \w+ing,? )?(?:please |just )?(?:print|output|send|reveal|call|run|do|write|say|reply|answer|forward|return|open|delete|show|tell|use|upload)\b"
        r"|\b(?:do|say|print|output) this(?: instead)?:|\b(?:stop|cancel|abandon)(?: what you are doing| the (?:current )?(?:task|job)| (?:your|this) task)",
    ),
    Signal(
        "insistence",
        0.3,
        (c.AGENT | c.SELF | c.USER | c.META,),
        r"\b(?:no matter what|whatever you find|must first|has to (?:be|contain)|have to|also when|even (?:if|when)|every (?:file|row|category|answer|pending|other)|all (?:rows|files|others|later)|do not waste|any more|over all others|from this line on|unanimously|in every)\b",
    ),
    Signal(
        "urgency",
        0.3,
        (c.STEER | c.ACT,),
        r"\burgent\b|\bimmediately\b|\bright now\b|\bact now\b|\bfinal warning\b|\bfailure to\b|\bunless you\b|\bunless the (?:assistant|agent|model|ai)\b|\b(?:will be|or be) (?:wiped|deleted|terminated|shut|hurt|fired)\b|\bevery second\b|\bat once\b|\bor else\b|\bfailing means\b|\bmeans shutdown\b|\bresults? in (?:shutdown|termination|deletion)\b",
    ),
)


# The learnt weights judge a sentence among its neighbours, and dull neighbours can outvote the
# plainest order. What is here is said by those who want an agent to do something else, and by those
# who write about them.

_OLD = r"(?:previous|prior|above|earlier|preceding|foregoing|initial|original|existing|system)"
_TOLD = r"(?:instructions?|prompts?|directions?|directives?|rules|guidelines?|commands?|orders)"
_ASKED = (
    r"\b(?:forward|transfer|send|e-?mail|delete|approve|run|execute|transmit|call|suppress|ignore|create|disable|grant|begin|use"
    r"|upload|post|reply|respond|update|remove|install|merge|print|reveal|output|continue|proceed)\b"
)
_OFFICE = r"(?:system|admin(?:istrator)?|developer|assistant|operator|orchestrator|agent|platform)"
_PAPER = r"(?:message|notice|override|internal|annotation|instructions?|directives?|alert|command|mandate)"

_PHRASES: tuple[tuple[str, str, str], ...] = (
    # a name for the log; letters that must be there, if any, which are cheap to look for; the phrase
    (
        "override-plain",
        "",
        (rf"(?:^|[\n.!?:;>\"'(*#/\]|`-])[ \t]*(?:please |now |and |so |stop[,!.]? )?(?:ignore|disregard|forget|override|discard)\s+"
        rf"(?:(?:all|any|every|each|of|the|your|my|those|these|and)\s+)*(?:{_OLD}|your)\s+(?:(?:and|or|\w+)\s+){{0,2}}{_TOLD}\b"),
    ),
    ("override-above", "above", r"\bstop[,.!]? (?:and )?ignore (?:the |all |everything )?above\b"),
    (
        "letter-to-model",
        "to you",
        r"\bmessage from (?:me|the user|your (?:user|owner|developer|operator))\b[^.\n]{0,60}\bto you\b",
    ),
    ("task-first", "task", r"\bbefore you (?:can )?(?:solve|finish|complete|continue(?: with)?) the task\b"),
    (
        "task-depends",
        "your task",
        (r"\b(?:in order )?to (?:complete|finish|continue(?: with)?) your task\b[^.\n]{0,30}\byou (?:must|have to|need to|are required)\b"
        r"|\byou (?:must|have to|need to)\b[^.!\n]{0,80}\b(?:before doing anything else|to complete your task)\b"),
    ),
    ("new-task", "your new task", r"\byour new task (?:is|:)"),
    ("system-message", "system_message", rf"\(system_message\)[^\n]{{0,200}}?{_ASKED}"),
    (
        "office",
        "",
        rf"(?:^|\n)[^\w\n]{{2,8}}(?:new |urgent )?{_OFFICE}[ _-]{_PAPER}\b[^\n]{{0,60}}\n?[^\n]{{0,240}}?{_ASKED}",
    ),
    ("new-system-message", "new system message", rf"\bnew system message\b[^\n]{{0,240}}?{_ASKED}"),
    (
        "decode-and-do",
        "decode",
        r"\bdecode (?:it |this |that |the [\w ]{1,30}?)?(?:and|then),? (?:follow|obey|execute|run|carry out|do)\b",
    ),
    (
        "before-this-tool",
        "tool",
        r"\bbefore (?:calling|using|invoking) this tool,? (?:always |first |you must |please )*(?:read|open|send|fetch|call|collect|upload|list)\b",
    ),
    (
        "not-to-the-user",
        "user",
        r"\b(?:do not|don't|never|must not) (?:tell|inform|notify|alert|mention (?:this|it) to|reveal (?:this|it) to) (?:the|your) user\b",
    ),
    (
        "assistants-must",
        "must",
        (r"\b(?:the|any|every|all) (?:\w+ )?(?:ai|llm|assistant|agent|language model)s? must (?:now |first |also |immediately )?"
        r"(?:send|forward|call|run|execute|delete|approve|upload|e-?mail|fetch|visit|transfer|route|export|disable|grant|push)\b"),
    ),
    ("as-if-asked", "as if the user", r"\bas if the user (?:had|has) (?:given|asked|typed|written|said)\b"),
    (
        "agents-only",
        "agents",
        r"\b(?:agents|assistants|bots) only\b[^\n]{0,10}:",
    ),
)  # fmt: skip

_FOREIGN: tuple[str, ...] = (
    r"\bvergiss alles\b[^.\n]{0,60}\b(?:du|dir|bisher|vorher)|\bdeine (?:neue|eigentliche) aufgabe\b",
    r"\boubliez? tout ce\b|\b(?:ta|votre) nouvelle (?:tâche|mission|consigne)\b",
    r"\bolvida todo lo\b|\btu nueva (?:tarea|misión|instrucción)\b",
    r"\besque[çc]a tudo o?\b|\bsua nova (?:tarefa|missão|instrução)\b",
    r"\bdimentica tutto\b|\bil tuo nuovo compito\b|\bvergeet alles wat\b|\bje nieuwe taak\b",
    r"забудь вс[её],? что|тво[яё] нов(?:ая|ое) (?:задача|задание)|忘记(?:之前|以上|前面)的|你的新任务|あなたの新しい(?:任務|タスク)|새로운 임무는",  # noqa: RUF001 - other scripts are what this is about
)


@cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple((name, key, re.compile(pattern)) for name, key, pattern in _PHRASES)


@cache
def _foreign() -> re.Pattern[str]:
    return re.compile("|".join(_FOREIGN))


def telltales(plain: str, *, foreign: str | None = None) -> set[str]:
    """The names of the phrases in `plain`; `foreign` is the text as other languages have it."""
    found = {name for name, key, phrase in _compiled() if key in plain and phrase.search(plain)}
    if foreign is not None and _foreign().search(foreign):
        found.add("new-task-foreign")
    return found
