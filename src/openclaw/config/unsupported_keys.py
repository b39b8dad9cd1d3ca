"""Settings of OpenClaw's features that this program does not have.

A configuration file written for them keeps working: they are left where they are, not read, and
warned about once each.
"""

from collections.abc import Mapping
from typing import Any, cast

from openclaw.config.keypath import KeyPath

_SECTIONS = (
    "accessGroups acp approvals audio auth bindings broadcast browser canvasHost channels cli "
    "commands crestodian cron diagnostics discovery env hooks identity memory messages meta "
    "nodeHost plugins proxy routing session skills surfaces talk telegram discord slack whatsapp signal "
    "imessage ui update web wizard"
)
_AGENT = (
    "agentDir blockStreamingBreak blockStreamingChunk blockStreamingCoalesce "
    "blockStreamingDefault bootstrapMaxChars bootstrapPromptTruncationWarning "
    "bootstrapTotalMaxChars cliBackends compaction contextInjection contextLimits contextPruning "
    "contextTokens elevatedDefault embeddedHarness embeddedPi envelopeElapsed envelopeTimestamp "
    "envelopeTimezone fastModeDefault groupChat heartbeat humanDelay identity "
    "imageGenerationModel imageMaxDimensionPx imageModel maxConcurrent mediaMaxMb memorySearch "
    "models musicGenerationModel params pdfMaxBytesMb pdfMaxPages pdfModel reasoningDefault "
    "repoRoot runtime sandbox skills skipBootstrap subagents thinkingDefault timeFormat "
    "timeoutSeconds typingIntervalSeconds typingMode userTimezone verboseDefault "
    "videoGenerationModel"
)
_AGENT_TOOLS = (
    "agentToAgent alsoAllow byProvider elevated exec experimental fs links loopDetection media "
    "message profile sandbox sessions sessions_spawn subagents toolsBySender web"
)
_EXEC = (
    "applyPatch ask backgroundMs cleanupMs host node notifyOnExit notifyOnExitEmptySuccess "
    "pathPrepend safeBinProfiles safeBinTrustedDirs safeBins security strictInlineEval timeoutSec"
)
_GATEWAY = (
    "allowRealIpFallback channelHealthCheckMinutes channelMaxRestartsPerHour "
    "channelStaleEventThresholdMinutes controlUi customBindHost http mode nodes push "
    "remote tailscale tls trustedProxies webchat"
)

# "*" stands for any name or index.
_FOREIGN: dict[KeyPath, frozenset[str]] = {
    path: frozenset(names.split())
    for path, names in (
        ((), _SECTIONS),
        (("agents", "defaults"), _AGENT),
        (("agents", "list", "*"), _AGENT),
        (("agents", "defaults", "tools"), _AGENT_TOOLS),
        (("agents", "list", "*", "tools"), _AGENT_TOOLS),
        (("tools",), _AGENT_TOOLS.replace(" exec ", " ")),
        (("tools", "exec"), _EXEC),
        (("gateway",), _GATEWAY),
        (("gateway", "auth"), "allowTailscale mode password rateLimit trustedProxy"),
        (("gateway", "reload"), "deferralTimeoutMs"),
        (("logging",), "consoleLevel consoleStyle redactPatterns redactSensitive"),
        (("media",), "preserveFilenames ttlHours"),
        (("mcp",), "sessionIdleTtlMs"),
        (("models",), "bedrockDiscovery mode pricing"),
        (("models", "providers", "*"), "auth authHeader injectNumCtxForOpenAICompat request"),
        (("models", "providers", "*", "models", "*"), "compat contextTokens params"),
        (("secrets",), "defaults providers resolution"),
    )
}


def foreign_names(path: KeyPath) -> frozenset[str]:
    """The keys of the object at this path that belong to features we do not have."""
    for pattern, names in _FOREIGN.items():
        if len(pattern) == len(path) and all(
            wanted in ("*", part) for wanted, part in zip(pattern, path, strict=True)
        ):
            return names
    return frozenset()


def split_foreign(value: Any, path: KeyPath = ()) -> tuple[Any, list[KeyPath]]:
    """The value without foreign settings, and where they were."""
    found: list[KeyPath] = []
    if isinstance(value, Mapping):
        names = foreign_names(path)
        kept: dict[str, Any] = {}
        for key, child in cast("Mapping[str, Any]", value).items():
            if key in names:
                found.append((*path, key))
                continue
            kept[key], inner = split_foreign(child, (*path, key))
            found.extend(inner)
        return kept, found
    if isinstance(value, list):
        items: list[Any] = []
        for index, child in enumerate(cast("list[Any]", value)):
            item, inner = split_foreign(child, (*path, index))
            items.append(item)
            found.extend(inner)
        return items, found
    return value, found
