"""The methods, notifications and `_meta` keys that MCP names, as far as more than one place uses them."""

_PREFIX = "io.modelcontextprotocol/"

META_VERSION = f"{_PREFIX}protocolVersion"
META_CLIENT = f"{_PREFIX}clientInfo"
META_CAPABILITIES = f"{_PREFIX}clientCapabilities"
META_LOG_LEVEL = f"{_PREFIX}logLevel"
META_SERVER = f"{_PREFIX}serverInfo"
META_SUBSCRIPTION = f"{_PREFIX}subscriptionId"
META_RELATED_TASK = f"{_PREFIX}related-task"

TASKS_EXTENSION = f"{_PREFIX}tasks"
SKILLS_EXTENSION = f"{_PREFIX}skills"

INITIALIZE, DISCOVER, PING = "initialize", "server/discover", "ping"
TOOLS_LIST, TOOLS_CALL = "tools/list", "tools/call"
PROMPTS_LIST, PROMPTS_GET = "prompts/list", "prompts/get"
RESOURCES_LIST, RESOURCES_READ = "resources/list", "resources/read"
TEMPLATES_LIST = "resources/templates/list"
SUBSCRIBE, UNSUBSCRIBE, LISTEN = (
    "resources/subscribe", "resources/unsubscribe", "subscriptions/listen",
)  # fmt: skip
COMPLETE, SET_LEVEL = "completion/complete", "logging/setLevel"
TASKS_GET, TASKS_UPDATE, TASKS_CANCEL = "tasks/get", "tasks/update", "tasks/cancel"
TASKS_RESULT, TASKS_LIST = "tasks/result", "tasks/list"
SKILLS_LIST, SKILLS_GET, DIRECTORY_READ = "skills/list", "skills/get", "resources/directory/read"

SAMPLING, ELICIT, ROOTS = "sampling/createMessage", "elicitation/create", "roots/list"

INITIALIZED, CANCELLED = "notifications/initialized", "notifications/cancelled"
PROGRESS, LOG = "notifications/progress", "notifications/message"
ROOTS_CHANGED = "notifications/roots/list_changed"
TOOLS_CHANGED = "notifications/tools/list_changed"
PROMPTS_CHANGED = "notifications/prompts/list_changed"
RESOURCES_CHANGED = "notifications/resources/list_changed"
RESOURCE_UPDATED = "notifications/resources/updated"
ELICITATION_COMPLETE = "notifications/elicitation/complete"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TASK_STATUS, TASK_CHANGED = "notifications/tasks/status", "notifications/tasks"

# From the least to the most severe.
LOG_LEVELS = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip
