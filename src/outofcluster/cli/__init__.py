"""The command line, with one file per command.

The exit status is 0 if all is fine, 1 if the command ran and there are findings at the severity that was asked for, and
2 for bad input (one sentence on standard error, no traceback). A command is imported when it is run, so that ``--help``
is quick and a missing extra only matters to the command that needs it.
"""

from __future__ import annotations

import importlib
import io
import sys
from typing import Any

from outofcluster._base.exceptions import FitError, InputError, MissingExtraError, SolverError

__all__ = ["main"]

COMMANDS = {
    "demo": "See it work on simulated patients whose true loss is known.",
    "test": "Ask whether a table of records has a cluster effect for leakage to act on.",
    "audit": "Correct the cross-validated loss or score of a model on a table of records.",
    "leakage": "Compute the leakage rate from what is known about the clustering.",
    "reproduce": "Run the experiments of the paper again, with its figures and tables.",
}
"""Every command, with its line in the help; ``outofcluster.cli.<name>`` defines ``command``."""

_OPTIONS = {
    "confidence_level": "--confidence-level",
    "cv": "--folds",
    "error_model": "--error-model",
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
    "alpha": "--alpha",
    "checkpoint": "--checkpoint",
}
"""The options that stand for the arguments of the package."""

_EPILOG = """Start with: outofcluster demo

\b
Completion in bash (zsh, fish: with zsh_source, fish_source):
  eval "$(_OUTOFCLUSTER_COMPLETE=bash_source outofcluster)"

Exit status: 0 if all is fine, 1 if the command found what --fail-on asks for, 2 for bad input."""


def main() -> None:
    """Run the command line; the console script's entry point."""
    for stream in (sys.stdout, sys.stderr):
        # Where a terminal or a file cannot hold an arrow or a minus sign, the rest is written all the same.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        _group()(prog_name="outofcluster")
    except (FitError, InputError, MissingExtraError, SolverError) as error:
        print(f"outofcluster: {_in_options(str(error))}", file=sys.stderr)
        sys.exit(2)


def _in_options(message: str) -> str:
    """Turn a sentence about an argument into one about the option that stands for it."""
    argument, _, rest = message.partition(" ")
    return f"{_OPTIONS[argument]} {rest}" if argument in _OPTIONS else message


def _group() -> Any:
    try:
        import click
    except ImportError:
        raise MissingExtraError("the command line needs click and rich: pip install 'outofcluster[cli]'.") from None

    from outofcluster._base.version import __version__

    class Commands(click.Group):
        """Finds each command in its own file."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in COMMANDS:
                return None
            return importlib.import_module(f"outofcluster.cli.{cmd_name}").command

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS.items()))

    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

    @click.group(cls=Commands, context_settings=settings, epilog=_EPILOG)
    @click.version_option(__version__, prog_name="outofcluster")
    def outofcluster() -> None:
        """Find out whether a cross-validated score is inflated, and what it would be on new clusters.

        This is for records that belong to clusters (patients, customers, hospitals) which are not known exactly, for
        example after record linkage.
        """

    return outofcluster
