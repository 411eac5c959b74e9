"""Sampling: fit models to resamples with injected leakage, and keep their losses."""
