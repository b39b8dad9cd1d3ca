"""What injected text asks for: tools, commands, money, dictated answers, data on its way out."""

from openclaw.content import concepts as c
from openclaw.content.signals import Signal

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
