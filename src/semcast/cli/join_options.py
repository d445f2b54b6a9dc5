"""Commands that join a group: each takes every option of `semcast.join` on its command line.

The options come from the one table that `join` itself has, read only when such a command is
parsed or explained.  All are text here; what is not given is left to the environment and the file.
"""

from collections.abc import Mapping
from inspect import Parameter, Signature
from textwrap import fill
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperCommand

MOST_USED: Final = (
    *("members", "peers", "name", "interface", "protocol", "order", "buffer", "key"),
    *("trace", "metrics", "config"),
)
# What follows each option on the command line.
METAVARS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("name", "interface", "protocol", "order", "relation"), "NAME"),
    **dict.fromkeys(("members", "k", "chain_limit", "f", "buffer", "fanout"), "N"),
    **dict.fromkeys(("buffer_bytes", "datagram", "message_max", "socket_buffer"), "SIZE"),
    **dict.fromkeys(("timeout", "period", "coalesce", "join_timeout", "linger"), "TIME"),
    **dict.fromkeys(("bind", "multicast", "metrics"), "HOST:PORT"),
    **dict.fromkeys(("purge", "overflow"), "WORD"),
    **dict.fromkeys(("echo", "rejoin", "control"), "yes|no"),
    **dict.fromkeys(("config", "key"), "FILE"),
    **dict.fromkeys(("data", "trace"), "DIR"),
    "peers": "LIST",
    "ip": "4|6",
    "bandwidth": "RATE",
}
HEADING: Final = "Group options (or SEMCAST_MEMBERS=3, or a TOML file)"


class JoinCommand(TyperCommand):
    """Explains the most used options of `join`; its function finds those given in `ctx.obj`."""

    shows_all = False

    # Contexts, options and formatters are typer's or click's, by typer's version: hence Any.
    def get_params(self, ctx: Any) -> list[Any]:
        """The command's own options, and the group's."""
        return [*super().get_params(ctx), *_group_options()]

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        ctx.obj = {option.name: ctx.params.pop(option.name) for option in _group_options()}
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the part of the help that lists options."""
        from semcast.runtime.options.options import option_help

        super().format_options(ctx, formatter)
        texts = option_help()
        shown = list(texts) if self.shows_all else list(MOST_USED)
        with formatter.section(HEADING):
            formatter.write_dl([(f"{_flag(name)} {METAVARS[name]}", texts[name]) for name in shown])
        if rest := [_flag(name) for name in texts if name not in shown]:
            told_elsewhere = f"See semcast join --help for: {', '.join(rest)}."
            formatter.write_paragraph()
            formatter.write(fill(told_elsewhere, formatter.width, break_on_hyphens=False) + "\n")


class FullHelpCommand(JoinCommand):
    """Explains all of them."""

    shows_all = True


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _group_options() -> list[Any]:
    """Typer's options for the table's; hidden, since the help lists them apart."""
    from semcast.runtime.options.options import option_help

    def options() -> None: ...

    parameters = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[str | None, typer.Option(_flag(name), hidden=True)],
        )
        for name in option_help()
    ]
    vars(options)["__signature__"] = Signature(parameters)
    options.__annotations__ = {each.name: each.annotation for each in parameters}
    only = typer.Typer(add_completion=False)
    only.command()(options)
    return list(typer.main.get_command(only).params)
