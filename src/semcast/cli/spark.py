"""The options of every command that runs on Spark, and of those that read keyed files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from semcast.pipeline.session import Target

Master: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, …")
]
SomeMaster: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Where Spark runs: local[N], spark://HOST:PORT, yarn, …"),
]
Remote: TypeAlias = Annotated[
    str | None, typer.Option(metavar="URL", help="A Spark Connect server instead: sc://HOST:PORT.")
]
Conf: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="A setting of Spark; may be repeated.")
]
LOCAL = "local[*]"

Key: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Of a keyed file: what a message is about.")
]
Order: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Whole numbers.", show_default="as in the file"),
]
Sender: TypeAlias = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Who sent it.", show_default="one sender")
]
Kind: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="U update, C create, D delete, R one-off.",
        show_default="all update",
    ),
]


def target_of(
    master: str = LOCAL,
    remote: str | None = None,
    conf: list[str] | None = None,
    ours: Mapping[str, str] | None = None,
) -> "Target":
    """What these options mean; `ours` are settings that suit the command."""
    from semcast.pipeline.session import Target

    settings = [each.partition("=") for each in conf or ()]
    for name, equals, _ in settings:
        if not equals or not name.startswith("spark."):
            raise ConfigError(f"conf: {name!r} is no setting of Spark; give spark.NAME=VALUE")
    given = {name: value for name, _, value in settings}
    return Target(master, remote, {**(ours or {}), **given})


def some_target(master: str | None, remote: str | None, conf: list[str] | None) -> "Target | None":
    """The same for a command that can do without Spark: None if nothing was said of it."""
    return target_of(master or LOCAL, remote, conf) if master or remote or conf else None
