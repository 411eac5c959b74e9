"""Sentences on standard error, with the options that stand for the arguments of the package."""

from __future__ import annotations

import sys
from contextlib import suppress

from outofcluster._base.text import printable

_OPTIONS = {
    "confidence_level": "--confidence-level",
    "cv": "--folds",
    "error_model": "--error-model",
    "groups_by_threshold": "--groups",
    "leakage": "--leakage",
    "loss": "--loss",
    "scoring": "--scoring",
    "pool": "--pool",
    "n_fits": "--fits",
    "n_jobs": "--jobs",
    "random_state": "--seed",
    "rate": "--leakage",
    "std": "--leakage-std",
    "precision": "--precision",
    "recall": "--recall",
    "precision_std": "--precision-std",
    "recall_std": "--recall-std",
    "n_links": "--links",
    "n_records": "--records",
    "mates": "--mates",
    "drawn": "--drawn",
    "sampled": "--sampled",
    "alpha": "--alpha",
    "checkpoint": "--checkpoint",
}


def complain(message: str) -> None:
    """Print a sentence about an argument as one about the option that stands for it."""
    argument, _, rest = message.partition(" ")
    sentence = f"{_OPTIONS[argument]} {rest}" if argument in _OPTIONS else message
    # Standard error may be closed, which is no reason to fail.
    with suppress(OSError, ValueError):
        print(f"outofcluster: {printable(sentence)}", file=sys.stderr, flush=True)
