"""What stands between an env and the agent."""
