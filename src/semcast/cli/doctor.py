"""`semcast doctor`: whether live groups work on this machine, and how to fix what does not."""

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli.commands import Json
from semcast.cli.output import Output, table, width, wrapped
from semcast.terms.palette import HOLDS, SLOW, WRONG, Colour

if TYPE_CHECKING:
    from collections.abc import Sequence

    from semcast.runtime.operations.doctor import DoctorCheck

EXAMPLE = "Example: semcast doctor --interface eth0 --json"
UNFIT: Final = 2  # the exit code of an environment in which live groups do not work
# The checks by what they are about, by the beginnings of their names.
SECTIONS: Final = {
    "software": ("python", "semcast", "msgspec", "cryptography", "kernel", "uvloop"),
    "network": ("udp", "tcp", "multicast", "group", "socket buffers"),
    "machine": ("clock", "wall clock", "incarnation", "control sockets", "open files"),
    "keys": ("keys",),
    "extras": ("pyarrow", "prometheus-client", "pyspark", "pandas", "grpcio", "java"),
}
OPTIONAL: Final = "extras"
MARKS: Final = {"ok": "[ok]", "warn": "[! ]", "fail": "[XX]"}
COLOURS: Final = {"ok": HOLDS, "warn": SLOW, "fail": WRONG}


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
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print every check in a table.")
    ] = False,
    json: Json = False,
) -> None:
    """Check whether live groups can run on this machine.

    Prints how to fix each problem.
    """
    from semcast.runtime.operations.doctor import FAIL, overall_status, run_checks
    from semcast.runtime.transport.addresses import parse_name

    if group is not None:
        parse_name(group, "group")
    output = Output(json)
    checks = []
    for check in run_checks(interface, group):
        output.progress(check.name)
        checks.append(check)
    verdict = overall_status(checks)
    output.print_text(summary(checks), colour=COLOURS[verdict])
    if verbose:
        output.print_text("", *table([_row(each) for each in checks]))
    output.print_text("")
    for line, colour in describe(checks):
        output.print_text(line, colour=colour)
    output.next(*(["semcast demo"] if verdict != FAIL else []), "semcast doctor -v")
    output.print_json({"checks": checks, "verdict": verdict})
    if verdict == FAIL:
        raise typer.Exit(UNFIT)


def _row(check: "DoctorCheck") -> dict[str, object]:
    return {"check": check.name, "status": check.status, "found": check.found}


def describe(checks: "Sequence[DoctorCheck]") -> "Iterator[tuple[str, Colour | None]]":
    """A line for each section, and below it the checks that found something, with the remedy."""
    for section, names in SECTIONS.items():
        found = [each for each in checks if each.name.startswith(names)]
        good = [each for each in found if each.status == "ok"]
        if good:
            text = f"{MARKS['ok']} {section}: {', '.join(map(_short, good))}"
            yield from ((line, None) for line in wrapped(text, "     "))
        for each in found:
            if each.status == "ok":
                continue
            mark = "[ -]" if section == OPTIONAL else MARKS[each.status]
            colour = None if section == OPTIONAL else COLOURS[each.status]
            text = f"{mark} {each.name}: {each.found}"
            yield from ((line, colour) for line in wrapped(text, "     "))
            if each.advice:
                yield from ((f"     {line}", None) for line in _advice(each.advice))


def _advice(text: str) -> list[str]:
    return wrap(f"fix: {text}", width() - 5, subsequent_indent="     ", break_on_hyphens=False)


def _short(check: "DoctorCheck") -> str:
    """The name of a check, with what it found if that is a word or a version."""
    found = check.found.split(" on ")[0]
    return f"{check.name} {found}" if len(found) <= 14 else check.name


def summary(checks: "Sequence[DoctorCheck]") -> str:
    """The answer, in one line."""
    broken = [each.name for each in checks if each.status == "fail"]
    optional = SECTIONS[OPTIONAL]
    doubtful = [
        each.name for each in checks if each.status == "warn" and not each.name.startswith(optional)
    ]
    if broken:
        return f"Live groups do not work properly on this machine; failed: {', '.join(broken)}."
    if doubtful:
        return f"Live groups work on this machine; worth a look: {', '.join(doubtful)}."
    return "Live groups work on this machine."
