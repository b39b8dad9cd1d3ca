"""OpenAI's API on the gateway: chat completions and responses."""
