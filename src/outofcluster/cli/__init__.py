"""The command line, with one file per command.

The exit status is 0 if all is fine, 1 if the command ran and there are findings at the severity that was asked for, 2
for bad input, 3 if the program failed, and 130 if it was stopped; each but the first two with one sentence on standard
error and no traceback. A command is imported when it is run, so that ``--help`` is quick and a missing extra only
matters to the command that needs it.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import traceback
from typing import Any

from outofcluster._base.exceptions import FitError, InputError, MissingExtraError, SolverError
from outofcluster._base.text import printable

__all__ = ["main"]

# Every command, with its line in the help; ``outofcluster.cli.<name>`` defines ``command``.
COMMANDS = {
    "demo": "See it work on simulated patients whose true loss is known.",
    "test": "Ask whether a table of records has a cluster effect for leakage to act on.",
    "audit": "Correct the cross-validated loss or score of a model on a table of records.",
    "show": "Ask a saved audit again, without fitting a model.",
    "sweep": "Audit a model at several linkage thresholds, to see how loosely to group.",
    "leakage": "Compute the leakage rate from what is known about the clustering.",
    "reproduce": "Run the experiments of the paper again, with its figures and tables.",
}

_EPILOG = """Start with: outofcluster demo

\b
Completion in bash (zsh, fish: with zsh_source, fish_source):
  eval "$(_OUTOFCLUSTER_COMPLETE=bash_source outofcluster)"

\b
Exit status:
  0    all is fine
  1    the command found what --fail-on or --fail-on-effect asks for
  2    bad input: a file, an option, or a model that cannot be fitted
  3    the program failed; OUTOFCLUSTER_TRACEBACK=1 shows where
  130  stopped, by Ctrl-C"""

_BAD_INPUT, _CRASH, _STOPPED = 2, 3, 130
# The variable that asks for the traceback of a crash.
_TRACEBACK = "OUTOFCLUSTER_TRACEBACK"


def main() -> None:
    """Run the command line; the console script's entry point."""
    for stream in (sys.stdout, sys.stderr):
        # Where a terminal or a file cannot hold an arrow or a minus sign, the rest is written all the same.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        import click  # noqa: F401
    except ImportError:
        print("outofcluster: the command line needs click and rich: pip install 'outofcluster[cli]'.", file=sys.stderr)
        sys.exit(_BAD_INPUT)
    try:
        status = int(_group()(prog_name="outofcluster", standalone_mode=False) or 0)
    except (Exception, KeyboardInterrupt) as error:
        status = _status_of(error)
    sys.exit(status)


def _status_of(error: BaseException) -> int:
    """Say what went wrong in one sentence, and whose fault it is."""
    from click import exceptions

    from outofcluster.cli.printing import complain

    if isinstance(error, KeyboardInterrupt | exceptions.Abort):
        complain("Stopped.")
        return _STOPPED
    if isinstance(error, FitError | InputError | MissingExtraError | SolverError):
        complain(str(error))
        return _BAD_INPUT
    if isinstance(error, exceptions.ClickException):
        vars(error)["message"] = printable(error.message)
        error.show()
        return _BAD_INPUT
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    reason = " ".join(str(error).split())
    complain(
        f"stopped by an error of the program, {type(error).__name__}{f': {reason}' if reason else ''}. "
        f"Set {_TRACEBACK}=1 to see where."
    )
    return _CRASH


def _group() -> Any:
    import click

    from outofcluster._base.version import __version__
    from outofcluster.cli.options import SuggestingGroup

    class Commands(SuggestingGroup):
        """Finds each command in its own file."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            return importlib.import_module(f"outofcluster.cli.{cmd_name}").command if cmd_name in COMMANDS else None

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
