"""What the agent gets from a server: tools, results, resources and prompts."""
