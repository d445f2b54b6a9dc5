"""The kernel of this tree beside that of the last commit: a guard against getting slower unawares.

Both are compiled and run in processes of their own, which take turns; beside the kernel's functions
a member multicasts to another.  What is reported is for people to judge: the exit code is 0.
"""

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

ROOT = Path(__file__).parents[1]
HERE, LAST = "this tree", "last commit"
ROUNDS = 9


@contextmanager
def last_commit() -> Iterator[Path]:
    """A checkout of it, for as long as it is looked at."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with TemporaryDirectory() as place:
        tree = Path(place, "tree")
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), "HEAD"], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


class Runner:
    """A process that works with the semcast of one tree, when told."""

    def __init__(self, tree: Path) -> None:
        if (tree / "hatch_build.py").exists():
            subprocess.run([sys.executable, tree / "hatch_build.py"], check=True)
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work-in", tree],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.build, self.work = self._answer()

    def seconds(self, name: str) -> float:
        """Processor time per message."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._answer())

    def end(self) -> None:
        """No more work."""
        self._process.communicate()

    def _answer(self) -> object:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def work_in(tree: Path) -> None:
    """Be such a process."""
    sys.path.insert(0, str(tree / "src"))
    import kernel_work

    kernel, build = None, "none"
    if find_spec("semcast.kernel") is not None:
        from semcast import kernel

        build = kernel.BUILD
    work = {**kernel_work.work(kernel), "member to member": kernel_work.member_to_member}
    print(json.dumps([build, list(work)]), flush=True)
    for line in sys.stdin:
        started = process_time()
        messages = work[line.strip()]()
        print(json.dumps((process_time() - started) / messages), flush=True)


def compare(runners: Mapping[str, Runner]) -> None:
    """One line for each function of this tree: the fastest rounds, and how they compare."""
    print(f"{'ns/message':20}{LAST:>14}{HERE:>12}{'ratio':>8}")
    for name in runners[HERE].work:
        able = {tree: runner for tree, runner in runners.items() if name in runner.work}
        best = dict.fromkeys(able, float("inf"))
        for _ in range(ROUNDS):
            for tree, runner in able.items():
                best[tree] = min(best[tree], runner.seconds(name))
        now = best[HERE]
        last, ratio = (
            (f"{best[LAST] * 1e9:.0f}", f"{now / best[LAST]:.2f}") if LAST in able else ("", "")
        )
        print(f"{name:20}{last:>14}{now * 1e9:12.0f}{ratio:>8}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--work-in", type=Path, metavar="TREE", help="used by this program itself")
    tree = parser.parse_args().work_in
    if tree is not None:
        work_in(tree)
        return
    with last_commit() as last:
        runners = {LAST: Runner(last), HERE: Runner(ROOT)}
        print("kernels:", ", ".join(f"{tree} {each.build}" for tree, each in runners.items()))
        compare(runners)
        for runner in runners.values():
            runner.end()


if __name__ == "__main__":
    main()
