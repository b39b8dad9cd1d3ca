"""OpenClaw: a personal agent with MCP in both directions."""
