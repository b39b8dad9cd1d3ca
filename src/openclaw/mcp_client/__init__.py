"""The MCP client: servers' tools, resources and prompts, kept working whatever a server does."""
