"""Configuration: what `openclaw.json` may say, where it is, and what it means for each agent."""
