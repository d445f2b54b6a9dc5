"""Fuzzes everything that comes in from outside: `fuzz.py [--files] [--runs N]`.

What comes from the network or, with `--files`, journals and traces.  Guided by coverage with
atheris; without it, inputs are mutated blindly.  What fails is saved below `out/fuzz/`, and given
as an argument (`fuzz.py [--files] out/fuzz/crash-…`) it runs again alone.
"""

import argparse
import sys
import traceback
from collections.abc import Iterator
from hashlib import sha1
from importlib import import_module
from pathlib import Path
from random import Random

NETWORK, FILES = "fuzz_targets", "fuzz_files"
OUT = {NETWORK: Path("out/fuzz"), FILES: Path("out/fuzz/files")}
RUNS = {NETWORK: 1_000_000, FILES: 50_000}  # A trace of a few files takes some milliseconds.
INPUT_BYTES_MAX = 200
TIMEOUT_S = 300  # of the wall clock: for what never ends
MEMORY_MIB = 1024


def guided(name: str, runs: int) -> None:
    """Hand over to libFuzzer, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["semcast"]):
        targets = import_module(name)

    corpus = OUT[name] / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in targets.seeds():
        (corpus / sha1(seed).hexdigest()).write_bytes(seed)
    options = {
        "runs": runs,
        "max_len": INPUT_BYTES_MAX,
        "timeout": TIMEOUT_S,
        "rss_limit_mb": MEMORY_MIB,
        "artifact_prefix": f"{OUT[name]}/",
        "print_final_stats": 1,
    }
    arguments = [sys.argv[0], *(f"-{k}={v}" for k, v in options.items()), str(corpus)]
    atheris.Setup(arguments, targets.one_input)
    atheris.Fuzz()


def blind(name: str, runs: int) -> int:
    """Mutate seeds and make up bytes; 1 at the first failure."""
    targets = import_module(name)
    for data in mutations(list(targets.seeds()), runs, Random(runs)):
        try:
            targets.one_input(data)
        except Exception:
            traceback.print_exc()
            path = OUT[name] / f"crash-{sha1(data).hexdigest()}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            option = "--files " if name == FILES else ""
            print(f"failed, as does: {sys.argv[0]} {option}{path}", file=sys.stderr)
            return 1
    print(f"{runs:,} inputs, none failed", file=sys.stderr)
    return 0


def mutations(seeds: list[bytes], count: int, rng: Random) -> Iterator[bytes]:
    """Inputs near the seeds, and some from nowhere."""
    for _ in range(count):
        data = bytearray(rng.choice(seeds) if rng.random() < 0.7 else rng.randbytes(80))
        for _ in range(rng.randrange(12)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        yield bytes(data) + rng.randbytes(rng.randrange(60))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", action="store_true", help="journals and traces")
    parser.add_argument("--runs", type=int)
    parser.add_argument("inputs", nargs="*", type=Path, help="run these alone")
    arguments = parser.parse_args()
    name = FILES if arguments.files else NETWORK
    if arguments.inputs:
        for path in arguments.inputs:
            import_module(name).one_input(path.read_bytes())
        return 0
    runs = RUNS[name] if arguments.runs is None else arguments.runs
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzz: atheris is not installed, so inputs are mutated blindly", file=sys.stderr)
        return blind(name, runs)
    guided(name, runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
