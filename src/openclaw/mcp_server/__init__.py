"""`openclaw mcp-server`: any MCP client can give the agent orders through one tool."""
