"""Hypothesis: the same examples every time, and as long as they need."""

from hypothesis import settings

settings.register_profile("outofcluster", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("outofcluster")
