"""Metrics: what a model is scored with, as losses inside and in the metric's own sign and name outside."""

from outofcluster.sampling.metrics.facts import MetricFacts, known_facts

__all__ = ["MetricFacts", "known_facts"]
