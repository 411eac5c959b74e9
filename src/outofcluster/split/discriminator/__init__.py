"""Tell held-out records from training records: a cross-fitted estimate of the density ratio of V̂ to T̂."""

from outofcluster.split.discriminator.sides import Sides, tell_sides_apart

__all__ = ["Sides", "tell_sides_apart"]
