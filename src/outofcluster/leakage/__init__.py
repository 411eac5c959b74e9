"""How much leaks: a rate with its uncertainty, and one file for each source of such a rate."""
