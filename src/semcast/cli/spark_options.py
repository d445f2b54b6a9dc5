"""The options of every command that runs on Spark, and of those that read keyed files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from semcast.cli.past_waits import WaitTime
from semcast.terms.errors import ConfigError

if TYPE_CHECKING:
    from semcast.pipeline.spark_session import SparkTarget

Master: TypeAlias = Annotated[
    str, typer.Option(metavar="URL", help="Spark master: local[N], spark://HOST:PORT, yarn, …")
]
OptionalMaster: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Spark master: local[N], spark://HOST:PORT, yarn, …"),
]
Remote: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Spark Connect server to use instead of a master: sc://HOST:PORT."
    ),
]
Conf: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="K=V", help="Spark setting; repeat for more.")
]
LOCAL = "local[*]"
STARTING = "starting Spark"
START = WaitTime("starting Spark", 8.0)

KeyColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column with the key of a message; required for keyed files."
    ),
]
OrderColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Integer column that orders the messages.",
        show_default="as in the file",
    ),
]
SenderColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the sender.", show_default="one sender"),
]
KindColumn: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the kind of a row: U update, C create, D delete, R one-off.",
        show_default="all U",
    ),
]


def target_of(
    master: str = LOCAL,
    remote: str | None = None,
    conf: list[str] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> "SparkTarget":
    """What these options mean; `ours` are settings that suit the command."""
    from semcast.pipeline.spark_session import SparkTarget

    settings = [each.partition("=") for each in conf or ()]
    for name, equals, _ in settings:
        if not equals or not name.startswith("spark."):
            raise ConfigError(f"conf: {name!r} is not a Spark setting; write spark.NAME=VALUE")
    given = {name: value for name, _, value in settings}
    return SparkTarget(master, remote, {**(defaults or {}), **given})


def some_target(
    master: str | None, remote: str | None, conf: list[str] | None
) -> "SparkTarget | None":
    """The same for a command that can do without Spark: None if nothing was said of it."""
    return target_of(master or LOCAL, remote, conf) if master or remote or conf else None
