"""Error models: how clustering errors happen, what is fitted to show them, and what the losses then say."""
