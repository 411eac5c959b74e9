"""Metrics: what a model is scored with, as losses inside and in the metric's own sign and name outside."""
