"""Sampling: fit models to resamples with injected leakage, and keep their losses."""

from outofcluster.sampling.sample import sample_losses
from outofcluster.sampling.samples import LossSamples

__all__ = ["LossSamples", "sample_losses"]
