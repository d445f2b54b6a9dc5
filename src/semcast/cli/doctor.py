"""`semcast doctor`: whether live groups work on this machine, and what to do where they do not."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, table
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from semcast.runtime.operations.doctor import Check

EXAMPLE = "Example: semcast doctor --interface eth0 --json"
UNFIT: Final = 2  # the exit code of an environment that does not do


def doctor(
    interface: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Network interface, by name or address.",
            show_default="the default route's",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Also check the multicast address of this group."),
    ] = None,
    json: Json = False,
) -> None:
    """Check whether live groups can run on this machine.

    Prints how to fix each problem.
    """
    from semcast.runtime.operations.doctor import FAIL, examine, worst
    from semcast.runtime.transport.addresses import parse_name

    if group is not None:
        parse_name(group, "group")
    output = Output(json)
    checks = []
    for check in examine(interface, group):
        output.progress(check.name)
        checks.append(check)
    verdict = worst(checks)
    output.say(
        *describe(checks), "", output.paint(summary(checks), WRONG if verdict == FAIL else HOLDS)
    )
    output.answer({"checks": checks, "verdict": verdict})
    if verdict == FAIL:
        raise typer.Exit(UNFIT)


def describe(checks: "Sequence[Check]") -> list[str]:
    """What was found, and below it what to do."""
    rows = [{"check": each.name, "status": each.status, "found": each.found} for each in checks]
    advised = [each for each in checks if each.advice]
    longest = max((len(each.name) for each in advised), default=0)
    lines = [f"  {each.name:<{longest}}  {each.advice}" for each in advised]
    return [*table(rows), *(["", "What to do:", *lines] if lines else [])]


def summary(checks: "Sequence[Check]") -> str:
    """One line for who reads no other."""
    broken = [each.name for each in checks if each.status == "fail"]
    doubtful = sum(each.status == "warn" for each in checks)
    if broken:
        return f"Live groups do not work properly on this machine; failed: {', '.join(broken)}."
    if doubtful:
        return f"Live groups work on this machine; warnings in {doubtful} of {len(checks)} checks."
    return "Live groups work on this machine."
