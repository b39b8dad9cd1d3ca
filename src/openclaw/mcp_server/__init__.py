"""`openclaw mcp-server`: any MCP client gives the agent an order through one tool."""
