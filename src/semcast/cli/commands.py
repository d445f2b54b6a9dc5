"""How commands are declared: plain help, and an unknown name answered with the known ones."""

from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from semcast.terms.errors import one_of

Json: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON object as the last line of output.")
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Random seed.")]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(help="Number of worker processes.", show_default="one per core")
]


class Commands(TyperGroup):
    """A group of commands; `noun` is what its commands are called in an error."""

    noun = "command"

    # Contexts and commands are typer's or click's, by typer's version: hence Any.
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run."""
        if self.get_command(ctx, args[0]) is None:
            raise one_of(self.noun, args[0], self.list_commands(ctx))
        return super().resolve_command(ctx, args)


def new_app(group: type[Commands] | None, help_text: str | None = None) -> typer.Typer:
    """An application without rich help, rich tracebacks or shell completion: all of them slow."""
    return typer.Typer(
        cls=group,
        help=help_text,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
