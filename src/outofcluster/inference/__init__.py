"""From losses to an estimate with its interval."""
