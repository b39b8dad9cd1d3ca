"""The agent for editors and other clients that speak the Agent Client Protocol."""
