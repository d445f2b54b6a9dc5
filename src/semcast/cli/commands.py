"""How commands are declared: plain help under headings, and a hint for an unknown name."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import typer
from typer.core import TyperGroup

from semcast.terms.errors import NEAR, ConfigError, unknown_value

HELP_OPTIONS: Final = ("-h", "--help")

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of output.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Random seed.")]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(help="Number of worker processes.", show_default="one per core")
]


class CommandGroup(TyperGroup):
    """A group of commands; `noun` is what its commands are called in an error.

    `headings` puts the commands of the help under headings, in this order.
    """

    noun = "command"
    headings: ClassVar[Mapping[str, Sequence[str]]] = {}

    # Contexts and commands are typer's or click's, by typer's version: hence Any.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run."""
        if self.get_command(ctx, args[0]) is None:
            raise self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: Any, name: str) -> ConfigError:
        known = self.list_commands(ctx)
        inner: dict[str, str] = {}  # A command may be known, one level down.
        for group in known:
            if isinstance(command := self.get_command(ctx, group), CommandGroup):
                inner |= {inside: f"{group} {inside}" for inside in command.list_commands(ctx)}
        if not self.headings:
            return unknown_value(self.noun, name, known)
        nearest = [
            *get_close_matches(name, known, 1, NEAR),
            *get_close_matches(name, inner, 1, NEAR),
        ]
        path = ctx.command_path
        if not nearest:
            return ConfigError(f"unknown command {name!r}; see {path} --help")
        meant = f"{path} {inner.get(nearest[0], nearest[0])}"
        return ConfigError(f"unknown command {name!r}; did you mean {meant!r}?")

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name, in the order of the help."""
        first = [name for names in self.headings.values() for name in names]
        return [*first, *(name for name in super().list_commands(ctx) if name not in first)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the part of the help that lists commands, none of them cut short."""
        known = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        longest = max(map(len, known), default=0)
        listed = {name for names in self.headings.values() for name in names}
        rest = [name for name in known if name not in listed]
        sections = {**self.headings, "More" if listed else "Commands": rest}
        for heading, names in sections.items():
            if not names:
                continue
            summaries = [(f"{name:<{longest}}", _summary(known[name])) for name in names]
            with formatter.section(heading):
                formatter.write_dl(summaries)


def _summary(command: Any) -> str:
    """The first sentence of a command's help."""
    text: str = command.short_help or (command.help or "").partition("\n")[0]
    first, stop, _ = text.partition(".  ")
    return first + stop.rstrip()


def new_app(group: type[CommandGroup] | None, help_text: str | None = None) -> typer.Typer:
    """An application without rich help and rich tracebacks, which are slow to start."""
    return typer.Typer(
        cls=group,
        help=help_text,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(HELP_OPTIONS)},
    )
