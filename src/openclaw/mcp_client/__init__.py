"""Any MCP server's tools, resources and prompts, alive whatever the server does."""
