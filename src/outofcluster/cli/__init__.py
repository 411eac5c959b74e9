"""The command line, one file a command.

Exit status: 0 fine, 1 ran but with findings at the asked severity, 2 bad input (one sentence on standard error,
no traceback). Commands are imported when they are run, so that ``--help`` is quick and a missing extra is missed
only by the command that needs it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from outofcluster.errors import InputError, MissingExtraError

__all__ = ["main"]

COMMANDS = {
    "demo": "Recover a known loss on new clusters from simulated losses.",
}
"""Every command, with its line in the help; ``outofcluster.cli.<name>`` defines ``command``."""


def main() -> None:
    """Run the command line; the console script's entry point."""
    try:
        _group()()
    except (InputError, MissingExtraError) as error:
        print(f"outofcluster: {error}", file=sys.stderr)
        sys.exit(2)


def _group() -> Any:
    try:
        import click
    except ImportError:
        raise MissingExtraError("the command line needs click and rich: pip install 'outofcluster[cli]'.") from None

    from outofcluster import __version__

    class Commands(click.Group):
        """Looks commands up in their files."""

        def list_commands(self, ctx: Any) -> list[str]:
            return list(COMMANDS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in COMMANDS:
                return None
            return importlib.import_module(f"outofcluster.cli.{cmd_name}").command

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl(list(COMMANDS.items()))

    @click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="outofcluster")
    def outofcluster() -> None:
        """Tell whether a cross-validated score is inflated, and what the loss on new clusters is."""

    return outofcluster
