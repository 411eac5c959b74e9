"""Solvers that the curve methods share."""
