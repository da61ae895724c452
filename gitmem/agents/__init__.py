"""Room of agent integration: hooks of coding agents, what they are told, what they leave behind."""
