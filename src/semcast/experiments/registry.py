"""All experiments by name, in the order of the papers' figures."""

from semcast.experiments.buffers import BUFFERS
from semcast.experiments.convergence import CONVERGENCE
from semcast.experiments.experiment import Experiment
from semcast.experiments.game import GAME, GAME_TRAFFIC
from semcast.experiments.perturbed import PERTURBED_RECEIVER
from semcast.experiments.primary_backup import PRIMARY_BACKUP_SERVICE
from semcast.experiments.pubsub import PUBSUB
from semcast.experiments.replay import REPLAY
from semcast.experiments.scale import SCALE
from semcast.experiments.slow_receiver import SLOW_RECEIVER
from semcast.experiments.stock import STOCK
from semcast.terms.errors import unknown_value

EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        PERTURBED_RECEIVER,
        STOCK,
        SLOW_RECEIVER,
        BUFFERS,
        SCALE,
        GAME,
        GAME_TRAFFIC,
        REPLAY,
        PRIMARY_BACKUP_SERVICE,
        CONVERGENCE,
        PUBSUB,
    )
}


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise unknown_value("experiment", name, EXPERIMENTS)
    return EXPERIMENTS[name]
