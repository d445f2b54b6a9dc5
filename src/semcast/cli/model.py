"""`semcast model`: the closed formulas, without a simulation."""

from typing import Annotated

import typer

from semcast.cli.commands import Commands, Json, new_app
from semcast.cli.output import Output, pairs

app = new_app(Commands, "The analytical models, by themselves.")


@app.callback(epilog="Example: semcast model throughput --help")
def _model() -> None:
    pass


@app.command(
    epilog="\b\nExample:\n"
    "  semcast model throughput --r 0.5 --d 1 --buffer 20 --sender-rate 100 --receiver-rate 50"
)
def throughput(
    r: Annotated[float, typer.Option(help="Share of messages that overwrite an item.")],
    d: Annotated[int, typer.Option(help="Number of items overwritten.")],
    buffer: Annotated[int, typer.Option(help="Messages that a buffer holds.")],
    sender_rate: Annotated[float, typer.Option(help="Messages per second that are offered.")],
    receiver_rate: Annotated[float, typer.Option(help="Messages per second it can take.")],
    k: Annotated[
        int | None, typer.Option(help="Bits of a bitmap.", show_default="no bitmap")
    ] = None,
    json: Json = False,
) -> None:
    """How far a sender outruns a slow receiver (SRM equations 1 to 3)."""
    from semcast.faults.limits import positive, within
    from semcast.models import throughput as model

    for name, size in (("d", d), ("buffer", buffer), ("k", 1 if k is None else k)):
        within(name, size, 1)
    positive("sender-rate", sender_rate)
    positive("receiver-rate", receiver_rate)
    ratio = model.purge_ratio(r, d, model.horizon(buffer, k))
    facts = {
        "purge_ratio": float(ratio),
        "purge_ratio_limit": float(model.purge_ratio_limit(r, d)),
        "sender_rate": float(model.sender_rate(sender_rate, receiver_rate, ratio)),
        "receiver_rate": float(model.receiver_rate(sender_rate, receiver_rate, ratio)),
        "purged_ratio": float(model.purged_share(sender_rate, receiver_rate, ratio)),
    }
    output = Output(json)
    output.say(*pairs(facts))
    output.answer(facts)
