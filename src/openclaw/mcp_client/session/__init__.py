"""Speaking MCP with one server: handshake, requests, notifications, listing."""
