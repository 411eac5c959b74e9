"""The command line's own help texts, as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["page", "walk"]

_WIDTH = 92


def walk() -> Iterator[tuple[str, str]]:
    """Every command in the order of the help, with its help text."""
    import click

    from outofcluster.cli import _group

    def each(command: Any, name: str, parent: Any) -> Iterator[tuple[str, str]]:
        with click.Context(
            command, info_name=name, parent=parent, terminal_width=_WIDTH, **command.context_settings
        ) as context:
            path = context.command_path
            yield path, command.get_help(context)
            if isinstance(command, click.Group):
                for inner in command.list_commands(context):
                    yield from each(command.get_command(context, inner), inner, context)

    yield from each(_group(), "outofcluster", None)


def page() -> str:
    """One section per command."""
    return "\n".join(f"## `{name}`\n\n```text\n{text}\n```\n" for name, text in walk())
