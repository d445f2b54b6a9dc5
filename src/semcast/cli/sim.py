"""`semcast sim`: experiments, one command each, and the swarm of faults with its mutants.

The experiments are looked up when a name is asked for, so that nothing here has to know them.
"""

from contextlib import contextmanager
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
import typer.main

from semcast.cli.commands import CommandGroup, Jobs, Json, Seed, new_app
from semcast.cli.output import Output, count_of, format_value, table, width, wrapped
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import HOLDS, WRONG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from semcast.experiments.experiment import Experiment, Parameters, Row, Value
    from semcast.families.case import CaseOutcome
    from semcast.sim.swarm import SwarmSummary

# How long a run usually takes: a live one longer than its seconds by the first number, a simulation
# with its defaults the second, and more in proportion to these parameters.
LIVE_START_S, SIMULATION_S = 2.0, 2.0
SIZES = ("seconds", "rate", "members", "runs")


class ExperimentCommands(CommandGroup):
    """The commands declared below, and one for each experiment of the registry."""

    noun = "experiment"

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name."""
        from semcast.experiments.registry import EXPERIMENTS

        return [*super().list_commands(ctx), *EXPERIMENTS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, or None."""
        declared = super().get_command(ctx, cmd_name)
        if declared is not None:
            return declared
        from semcast.experiments.registry import EXPERIMENTS

        return experiment_command(EXPERIMENTS[cmd_name]) if cmd_name in EXPERIMENTS else None


app = new_app(ExperimentCommands, "Run the protocols in the simulator and check every guarantee.")
Mutant: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Run this deliberately broken variant of the protocol."),
]
Trace: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Directory for a trace of the runs; uses one core."),
]


@app.callback(epilog="Example: semcast sim list")
def _sim() -> None:
    pass


@app.command("list", epilog="Example: semcast sim list --json")
def list_experiments(json: Json = False) -> None:
    """List the experiments."""
    from semcast.experiments.registry import EXPERIMENTS

    rows = [
        {"name": e.name, "source": e.source, "summary": e.summary} for e in EXPERIMENTS.values()
    ]
    output = Output(json)
    output.print_text(*table([{**row, "summary": sentence(row["summary"])} for row in rows]))
    output.next("semcast sim slow-receiver --help", "semcast sim slow-receiver")
    output.print_json({"experiments": rows})


def sentence(summary: str) -> str:
    """The summary of an experiment as help texts are: with a capital letter and a stop."""
    return f"{summary[0].upper()}{summary[1:]}{'' if summary.endswith('?') else '.'}"


def experiment_command(experiment: "Experiment") -> Any:
    """The command that runs one point of an experiment."""
    single = new_app(None)
    parameters = (f"  {line}".rstrip() for line in parameter_lines(experiment, width() - 6))
    example = f"semcast sim {experiment.name} --set {_example(experiment)}"

    def run(
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="K=V", help="Value of one parameter; repeat for more."),
        ] = None,
        seed: Seed = 1,
        trace: Annotated[
            str | None, typer.Option(metavar="DIR", help="Directory for a trace of the run.")
        ] = None,
        live: Annotated[
            bool, typer.Option("--live", help="Run live processes instead of the simulator.")
        ] = False,
        verbose: Annotated[
            bool,
            typer.Option(
                "--verbose", "-v", help="Also print details, such as values of each node."
            ),
        ] = False,
        json: Json = False,
    ) -> int:
        output = Output(json)
        return run_experiment(experiment, settings or [], seed, trace, live, verbose, output)

    single.command(
        experiment.name,
        help=f"{sentence(experiment.summary)}\n\n{experiment.source}.",
        short_help=sentence(experiment.summary),
        epilog="\n".join(["\b", "Parameters:", *parameters, "", "\b", "Example:", f"  {example}"]),
    )(run)
    return typer.main.get_command(single)


def run_experiment(
    experiment: "Experiment",
    settings: list[str],
    seed: int,
    trace: str | None,
    live: bool,
    verbose: bool,
    output: Output,
) -> int:
    """Run one point, tell its row, and fail if a promise was broken."""
    parameters = experiment.parameters(dict(map(_setting, settings)))
    runs_protocol = "protocol" in parameters
    run = _runner(experiment, live, records=trace is not None and not runs_protocol)
    kind = "live" if live else "of simulated time"
    length = f", {parameters['seconds']:g} s {kind}" if "seconds" in parameters else ""
    with output.waiting(
        f"running {experiment.name}{length}", estimate=_estimate(experiment, parameters, live)
    ):
        row = run(parameters, seed, trace)
    results = {name: value for name, value in row.items() if name != "violations"}
    violations = int(row.get("violations") or 0)
    verdict = "ok  No violation. " if runs_protocol else ""
    if violations:
        verdict = f"FAIL  {violations:,} violations. "
    output.print_text(
        *wrapped(verdict + _answer(experiment, results), "    " if verdict else ""),
        colour=WRONG if violations else HOLDS,
    )
    _show_results(output, results, "live" if live else "simulated", verbose)
    output.next(*_next_commands(experiment.name, settings, trace, runs_protocol))
    output.print_json(
        {
            "experiment": experiment.name,
            "seed": seed,
            "source": "live" if live else "simulation",
            "parameters": dict(parameters),
            "results": results,
            "violations": violations,
        }
    )
    return 1 if violations else 0


def _runner(experiment: "Experiment", live: bool, *, records: bool) -> Any:
    """What runs a point; `records`: a trace is wanted of what has no events."""
    from semcast.terms.errors import ConfigError

    run = experiment.live if live else experiment.run
    if run is None:
        raise ConfigError(f"live: {experiment.name} cannot run live; remove --live")
    if records:
        raise ConfigError(f"trace: {experiment.name} has no events to record; remove --trace")
    return run


def _estimate(experiment: "Experiment", parameters: "Parameters", live: bool) -> WaitTime:
    """A live run lasts for its seconds; a simulation costs more the larger these numbers are."""
    if live and "seconds" in parameters:
        return WaitTime(f"live {experiment.name}", LIVE_START_S + parameters.number("seconds"))
    defaults = experiment.parameters({})
    size = 1.0
    for name in SIZES:
        if name in defaults:
            size *= parameters.number(name) / defaults.number(name)
    return WaitTime(f"sim {experiment.name}", SIMULATION_S * size)


def parameter_lines(experiment: "Experiment", columns: int) -> list[str]:
    """Each parameter with its default and what it means."""
    from semcast.experiments.wording import axis_label

    names = [f"{name}={_typed(value)}" for name, value in experiment.defaults.items()]
    longest = max(map(len, names))
    return [
        line
        for text, name in zip(names, experiment.defaults, strict=True)
        for line in wrap(
            f"{text:<{longest}}  {axis_label(name)}", columns, subsequent_indent=" " * (longest + 2)
        )
    ]


def _next_commands(
    name: str, settings: list[str], trace: str | None, runs_protocol: bool
) -> tuple[str, str]:
    if trace is not None:
        return f"semcast check {trace}", f"semcast profile {trace}"
    again = " ".join(["semcast sim", name, *(f"--set {text}" for text in settings)])
    option = f"--trace out/{name}" if runs_protocol else "--help"
    return f"{again} {option}", "semcast figures list"


def _typed(value: "Value") -> str:
    """A value as `--set` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _answer(experiment: "Experiment", results: "Row") -> str:
    """The row as one sentence."""
    from semcast.experiments.wording import wording

    texts = {}
    for name, value in results.items():
        shown, unit = wording(name).in_table(value)
        texts[name] = f"{format_value(shown)} {unit}".rstrip()
    return experiment.answer.format(**texts)


def _show_results(output: Output, results: "Row", source: str, verbose: bool) -> None:
    from semcast.experiments.wording import is_detail, result_rows

    details = sum(map(is_detail, results))
    shown = {name: value for name, value in results.items() if verbose or not is_detail(name)}
    output.print_text("", *table(result_rows(shown, source)))
    if details and not verbose:
        output.print_text(f"and {details} numbers of single nodes and links: --verbose")


@app.command(epilog="Example: semcast sim swarm --protocol s-rm --seeds 500")
def swarm(
    protocol: Annotated[str, typer.Option(metavar="P", help="Protocol to test.")],
    order: Annotated[
        str | None,
        typer.Option(metavar="O", help="Order to test.", show_default="drawn by each seed"),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds to run.")] = 200,
    first: Annotated[int, typer.Option("--from", metavar="SEED", help="First seed.")] = 0,
    mutant: Mutant = None,
    trace: Trace = None,
    jobs: Jobs = None,
    json: Json = False,
) -> int:
    """Simulate random groups, loads and faults; check every run.

    Each seed determines one run.
    """
    import msgspec

    from semcast.sim.swarm import mutants as known_mutants
    from semcast.sim.swarm import swarm as run_swarm
    from semcast.terms.errors import unknown_value
    from semcast.terms.limits import check_range

    check_range("seeds", seeds, 1)
    check_range("jobs", 1 if jobs is None else jobs, 1)
    if mutant is not None and mutant not in known_mutants():
        raise unknown_value("mutant", mutant, known_mutants())
    output = Output(json)
    with _recorded(trace, protocol, order, mutant) as run_one:
        summary = run_swarm(
            protocol,
            range(first, first + seeds),
            order=order,
            mutant=mutant,
            jobs=jobs,
            on_progress=lambda so_far: _show_progress(output, so_far, seeds),
            run_one=run_one,
        )
    _show_summary(output, summary, trace)
    output.print_json(msgspec.to_builtins(summary))
    return 1 if summary.violations else 0


def _show_summary(output: Output, summary: "SwarmSummary", trace: str | None) -> None:
    output.print_text(
        f"{'FAIL' if summary.violations else 'ok'}  {summary.protocol}: "
        f"{count_of(summary.violations, 'violation')} in {count_of(summary.seeds, 'seed')}",
        colour=WRONG if summary.violations else HOLDS,
    )
    output.print_text(
        f"{summary.events:,} events, {summary.events_per_second:,.0f} per second and core, "
        f"{summary.crashes:,} crashes"
    )
    if summary.not_exercised:
        output.print_text(f"not exercised: {' '.join(summary.not_exercised)}")
    elif summary.obligations:
        rarest = min(summary.obligations, key=summary.obligations.__getitem__)
        output.print_text(
            f"every property was exercised, least {rarest}: {summary.obligations[rarest]:,} times"
        )
    if summary.first_failure is not None:
        recorded = trace or "out/failure"
        see = f"semcast explain {recorded} --run {summary.first_failed_seed}"
        if trace is None:
            see = f"{summary.first_failure} --trace {recorded}; {see}"
        output.print_text("", *summary.explanation.splitlines(), "")
        output.print_command("replay: ", summary.first_failure)
        output.print_command("see it: ", see)
    else:
        output.next(f"semcast sim mutants --protocol {summary.protocol}", "semcast sim list")


@contextmanager
def _recorded(
    trace: str | None, protocol: str, order: str | None, mutant: str | None
) -> "Iterator[Callable[[int], CaseOutcome] | None]":
    """What runs a seed and records it, if there is a directory to record in."""
    if trace is None:
        yield None
        return
    from semcast.sim.swarm_trace import recorded_swarm  # pyarrow is an extra

    with recorded_swarm(trace, protocol, mutant, order) as recorder:
        yield recorder.run


@app.command(epilog="Example: semcast sim mutants --protocol s-rm --seeds 100")
def mutants(
    protocol: Annotated[
        str | None,
        typer.Option(
            metavar="P", help="Run only the mutants of this protocol.", show_default="all"
        ),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Maximum number of swarm seeds for each mutant.")
    ] = 200,
    jobs: Jobs = None,
    json: Json = False,
) -> int:
    """Verify that checks catch deliberately broken protocols."""
    from semcast.sim.hunt import mutants_of, run_mutant
    from semcast.terms.limits import check_range

    check_range("seeds", seeds, 1)
    check_range("jobs", 1 if jobs is None else jobs, 1)
    output = Output(json)
    names = mutants_of(protocol)
    hunts = []
    for done, name in enumerate(names):
        show = partial(_show_hunt, output, done, len(names), name)
        hunts.append(run_mutant(name, range(seeds), jobs=jobs, on_progress=show))
    survivors = [one.name for one in hunts if not one.caught]
    keys = ("name", "protocol", "caught", "by", "seed")
    rows = [{key: getattr(one, key) for key in keys} for one in hunts]
    caught = f"{len(rows) - len(survivors)} of {len(rows)} broken protocols were caught"
    missed = f"; missed: {', '.join(survivors)}" if survivors else ""
    verdict = f"{'FAIL' if survivors else 'ok'}  {caught}{missed}"
    output.print_text(verdict, colour=WRONG if survivors else HOLDS)
    output.print_text(
        "", *table([{key: row[key] for key in ("name", "caught", "by")} for row in rows])
    )
    output.next(f"semcast sim swarm --protocol {protocol or 's-rm'}", "semcast sim swarm --help")
    output.print_json({"mutants": rows})
    return 1 if survivors else 0


def _show_hunt(output: Output, done: int, total: int, name: str, summary: "SwarmSummary") -> None:
    output.bar(done, total, "mutants", f"{name}: {summary.seeds:,} seeds")


def _show_progress(output: Output, summary: "SwarmSummary", seeds: int) -> None:
    output.bar(summary.seeds, seeds, "seeds", f"{summary.violations:,} violations")


def _setting(text: str) -> tuple[str, "Value"]:
    from semcast.terms.errors import ConfigError

    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"set: {text!r} is not of the form NAME=VALUE")
    return name, value


def _example(experiment: "Experiment") -> str:
    """A setting of this experiment's own, for its help."""
    name, value = next(iter(experiment.defaults.items()))
    return f"{name}={_typed(value) or 'quotes.csv'}"
