"""Sampling: fit models to resamples with injected leakage, and keep their losses."""

from outofcluster.sampling.sample import sample_losses
from outofcluster.sampling.samples import Jackknife, LossSamples

__all__ = ["Jackknife", "LossSamples", "sample_losses"]
