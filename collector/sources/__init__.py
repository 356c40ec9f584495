"""Sources: what the agent reads from."""
