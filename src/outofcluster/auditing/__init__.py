"""The audit: choices, fits and solution put together, and what a user should know about the result."""
