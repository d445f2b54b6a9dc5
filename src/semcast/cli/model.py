"""`semcast model`: the closed formulas, without a simulation."""

from typing import Annotated, TypeAlias

import typer

from semcast.cli.commands import CommandGroup, Json, new_app
from semcast.cli.output import Output, table

app = new_app(CommandGroup, "Evaluate the papers' analytical models.")
Reached: TypeAlias = Annotated[
    int, typer.Option(help="Members that have the message before the first round.")
]
Mode: TypeAlias = Annotated[
    str, typer.Option(metavar="pull|push", help="Direction of gossip: pull or push.")
]
Error: TypeAlias = Annotated[
    float, typer.Option(help="Accepted probability that a member still misses the message.")
]
Rounds: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Number of rounds to print.", show_default="until the error is reached"),
]


@app.callback(epilog="Example: semcast model throughput --help")
def _model() -> None:
    pass


@app.command(
    epilog="\b\nExample:\n"
    "  semcast model throughput --r 0.5 --d 1 --buffer 20 \\\n"
    "    --sender-rate 100 --receiver-rate 50"
)
def throughput(
    r: Annotated[float, typer.Option(help="Share of messages that overwrite an item.")],
    d: Annotated[int, typer.Option(help="Number of items that they overwrite.")],
    buffer: Annotated[int, typer.Option(help="Buffer size, in messages.")],
    sender_rate: Annotated[float, typer.Option(help="Messages per second that the sender offers.")],
    receiver_rate: Annotated[
        float, typer.Option(help="Messages per second that the slow receiver can read.")
    ],
    k: Annotated[
        int | None,
        typer.Option(help="Length of the obsolescence bitmap.", show_default="no bitmap"),
    ] = None,
    json: Json = False,
) -> None:
    """Compute the sender's rate with one slow receiver.

    Uses equations 1 to 3 of SRM.
    """
    from semcast.models import throughput as model
    from semcast.terms.limits import check_positive, check_range

    for name, size in (("d", d), ("buffer", buffer), ("k", 1 if k is None else k)):
        check_range(name, size, 1)
    check_positive("sender-rate", sender_rate)
    check_positive("receiver-rate", receiver_rate)
    ratio = model.purge_ratio(r, d, model.horizon(buffer, k))
    facts = {
        "purge_ratio": float(ratio),
        "purge_ratio_limit": float(model.purge_ratio_limit(r, d)),
        "sender_rate": float(model.sender_rate(sender_rate, receiver_rate, ratio)),
        "receiver_rate": float(model.receiver_rate(sender_rate, receiver_rate, ratio)),
        "purged_ratio": float(model.purged_share(sender_rate, receiver_rate, ratio)),
    }
    output = Output(json)
    output.print_text(
        f"A sender that offers {sender_rate:g}/s gets {facts['sender_rate']:.1f}/s through; the "
        f"receiver reads {facts['receiver_rate']:.1f}/s and skips {facts['purged_ratio']:.0%} of "
        "the messages.",
        f"The buffer can purge up to {facts['purge_ratio']:.1%} of the messages, an unlimited "
        f"buffer {facts['purge_ratio_limit']:.1%}.",
    )
    output.next("semcast sim slow-receiver", "semcast profile FILE --key COLUMN")
    output.print_json(facts)


@app.command(
    epilog="\b\nExample:\n"
    "  semcast model gossip --members 100 --reached 51 \\\n"
    "    --mode pull --error 1e-6"
)
def gossip(
    members: Annotated[int, typer.Option(help="Number of members of the group.")],
    reached: Reached,
    mode: Mode,
    error: Error,
    rounds: Rounds = None,
    json: Json = False,
) -> None:
    """Compute the gossip rounds until all members have a message.

    Uses the model of RPB section 4.2.
    """
    from itertools import islice

    from semcast.models import gossip as model
    from semcast.terms.limits import check_range

    check_range("rounds", 0 if rounds is None else rounds, 0, model.ROUNDS_MAX)
    needed = model.rounds_for(model.uniform_recurrence(members, reached, mode), error)
    listed = (needed if rounds is None else rounds) + 1
    errors = list(islice(model.uniform_recurrence(members, reached, mode), listed))
    facts: dict[str, object] = {
        "rounds": needed,
        "probability": [1 - e for e in errors],
        "rounds_exact": None,
    }
    exact: list[float] = []
    if members <= model.CHAIN_MEMBERS_MAX:
        facts["rounds_exact"] = model.rounds_for(model.markov_chain(members, reached, mode), error)
        exact = [1 - e for e in islice(model.markov_chain(members, reached, mode), listed)]
        facts["probability_exact"] = exact
        facts["rounds_expected"] = model.expected_rounds(members, reached, mode)
    output = Output(json)
    output.print_text(*_rounds(facts, error), "")
    output.print_text(
        *table(
            [
                {"round": k, "all have it": 1 - e, "exactly": exact[k] if exact else None}
                for k, e in enumerate(errors)
            ]
        )
    )
    output.next("semcast sim convergence", "semcast sim pubsub")
    output.print_json(facts)


def _rounds(facts: dict[str, object], error: float) -> list[str]:
    """The answer in words."""
    lines = [
        f"After {facts['rounds']} rounds all have it, with a probability of error of {error:g}."
    ]
    if facts["rounds_exact"] is not None:
        lines.append(
            f"The exact Markov chain says {facts['rounds_exact']} rounds; on average all have it "
            f"after {facts['rounds_expected']:.1f}."
        )
    return lines
