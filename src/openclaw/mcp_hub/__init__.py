"""Other MCP clients use the configured servers through one server of ours."""
