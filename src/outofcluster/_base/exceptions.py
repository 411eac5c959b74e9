"""Every exception that the package raises on purpose, by the kind of problem.

Each message is one sentence that names the argument, its value and what is allowed.
"""

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "FitError",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "SolverError",
]


class InputError(ValueError):
    """An argument is outside what is allowed; raised before any work is done."""


class CheckpointError(InputError):
    """A checkpoint that this run cannot go on from: of another problem, or no checkpoint at all."""


class NotFittedError(ValueError, AttributeError):
    """A fitted quantity was asked for before anything was fitted."""


class SolverError(RuntimeError):
    """A solver stopped without reaching its tolerance; its status is in the message."""


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


class FitError(RuntimeError):
    """An estimator failed while sampling; the message says where.

    Attributes
    ----------
    samples : LossSamples
        What was computed before the failure.
    """

    def __init__(self, message: str, samples: object) -> None:
        super().__init__(message)
        self.samples = samples


class CheckpointWarning(UserWarning):
    """Finished work cannot be kept, and the run goes on without; its result is the same."""
