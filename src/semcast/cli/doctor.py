"""`semcast doctor`: whether live groups work on this machine, and how to fix what does not."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
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
KEYS: Final = "keys"
DATA: Final = "data"  # the check of a durable log, which was asked for
# The checks by what they are about, by the beginnings of their names.
SECTIONS: Final = {
    "software": ("python", "semcast", "msgspec", "cryptography", "kernel", "uvloop"),
    "network": ("udp", "tcp", "multicast", "group", "socket buffers"),
    "machine": ("clock", "wall clock", "incarnation", "control sockets", "open files"),
    DATA: (DATA,),
    KEYS: (KEYS,),
    "extras": (
        "pyarrow",
        "prometheus-client",
        "pyspark",
        "pandas",
        "grpcio",
        "java",
        "class archive",
    ),
}
OPTIONAL: Final = "extras"
MARKS: Final = {"ok": "[ok]", "warn": "[! ]", "fail": "[XX]"}
SPARE: Final = "[ -]"
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
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also verify the durable log in DIR.")
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
    output, checks = Output(json), []
    for check in chain(run_checks(interface, group, data), class_archive()):
        output.progress(check.name)
        checks.append(check)
    verdict = overall_status(checks)
    output.print_text(summary(checks), colour=COLOURS[verdict])
    if verbose:
        output.print_text("", *table([_row(each) for each in checks]))
    output.print_text("")
    for line, colour in describe(checks, is_verbose=verbose):
        output.print_text(line, colour=colour)
    output.next(*next_commands(works=verdict != FAIL, is_verbose=verbose))
    output.print_json({"checks": checks, "verdict": verdict})
    if verdict == FAIL:
        raise typer.Exit(UNFIT)


def next_commands(*, works: bool, is_verbose: bool) -> list[str]:
    """The demo where live groups work, and the details unless they have just been printed."""
    details = [] if works and is_verbose else ["semcast doctor -v"]
    return [*(["semcast demo"] if works else []), *details]


def class_archive() -> "Iterator[DoctorCheck]":
    """Whether there is an archive of Spark's Java classes, where there is a Spark."""
    from importlib.util import find_spec

    from semcast.pipeline.class_archive import find_archive
    from semcast.runtime.operations.doctor import OK, WARN, DoctorCheck

    if find_spec("pyspark") is None:
        return
    folder = find_archive()
    if folder is not None:
        yield DoctorCheck("class archive", OK, str(folder))
        return
    advice = "semcast spark-archive makes one; Spark then starts in less time"
    yield DoctorCheck("class archive", WARN, "none for this Java and Spark", advice)


def _row(check: "DoctorCheck") -> dict[str, object]:
    return {"check": check.name, "status": check.status, "found": check.found}


def describe(
    checks: "Sequence[DoctorCheck]", *, is_verbose: bool
) -> "Iterator[tuple[str, Colour | None]]":
    """A line for each section, and below it the checks that found something, with the remedy.

    What live groups do without is one line at the end, unless all is asked for.
    """
    spare = spare_of(checks)
    for section, names in SECTIONS.items():
        found = [each for each in checks if each.name.startswith(names)]
        good = [each for each in found if each.status == "ok"]
        if good:
            text = f"{MARKS['ok']} {section}: {', '.join(map(_brief, good))}"
            yield from ((line, None) for line in wrapped(text, "     "))
        for each in found:
            if each.status != "ok" and each not in spare:
                yield from _problem(each, MARKS[each.status], COLOURS[each.status])
    if is_verbose:
        for each in spare:
            yield from _problem(each, SPARE, None)
    elif spare:
        missing = ", ".join(each.name for each in spare)
        text = f"{SPARE} not available, not needed for live groups: {missing} (-v: details)"
        yield from ((line, None) for line in wrapped(text, "     "))


def _problem(
    check: "DoctorCheck", mark: str, colour: Colour | None
) -> "Iterator[tuple[str, Colour | None]]":
    text = f"{mark} {check.name}: {check.found.removeprefix(f'{check.name}: ')}"
    yield from ((line, colour) for line in wrapped(text, "     "))
    if check.advice:
        yield from ((f"     {line}", None) for line in _advice(check.advice))


def spare_of(checks: "Sequence[DoctorCheck]") -> "list[DoctorCheck]":
    """What is not in order but not needed: extras, and IPv6 where IPv4 works."""
    works = {each.name for each in checks if each.status == "ok"}
    return [
        each
        for each in checks
        if each.status == "warn"
        and (
            each.name.startswith(SECTIONS[OPTIONAL])
            or (each.name.endswith(" IPv6") and each.name.replace("IPv6", "IPv4") in works)
        )
    ]


def _advice(text: str) -> list[str]:
    return wrap(f"fix: {text}", width() - 5, subsequent_indent="     ", break_on_hyphens=False)


def _brief(check: "DoctorCheck") -> str:
    """The name of a check, with what it found if that is a word or a version."""
    if check.name == DATA:
        return check.found
    if check.name == KEYS:
        return check.found.partition(",")[0]
    found = check.found.split(" on ")[0]
    return f"{check.name} {found}" if len(found) <= 14 else check.name


def summary(checks: "Sequence[DoctorCheck]") -> str:
    """The answer, in one line."""
    broken = [each.name for each in checks if each.status == "fail"]
    spare = spare_of(checks)
    doubtful = [each.name for each in checks if each.status == "warn" and each not in spare]
    if broken == [DATA]:
        return "Live groups work on this machine, but the log of --data cannot be used."
    if broken:
        return f"Live groups do not work properly on this machine; failed: {', '.join(broken)}."
    log = "; the log is in order" if any(each.name == DATA for each in checks) else ""
    worth = f"; worth a look: {', '.join(doubtful)}" if doubtful else ""
    return f"Live groups work on this machine{log}{worth}."
