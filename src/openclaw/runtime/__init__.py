"""The composition root: what builds the parts and joins them.

Importing it is cheap: the SDK and the agent, which take a second, are imported when they are opened.
"""

from openclaw.runtime.host import Host, open_secrets, policy_of
from openclaw.runtime.orders import order_settings_elsewhere
from openclaw.runtime.runtime import Runtime, open_gateway_runtime, open_runtime
from openclaw.runtime.servers import open_servers

__all__ = [
    "Host",
    "Runtime",
    "open_gateway_runtime",
    "open_runtime",
    "open_secrets",
    "open_servers",
    "order_settings_elsewhere",
    "policy_of",
]
