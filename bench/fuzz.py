"""Fuzzes everything that comes in from outside: `fuzz.py [--runs N]`.

Guided by coverage with atheris; without it, inputs are mutated blindly.  What fails is saved to
`out/fuzz/`, and given as an argument (`fuzz.py out/fuzz/crash-…`) it runs again alone.
"""

import argparse
import sys
import traceback
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path
from random import Random

OUT = Path("out/fuzz")
INPUT_BYTES_MAX = 200
TIMEOUT_S = 300  # of the wall clock: for what never ends
MEMORY_MIB = 1024


def guided(runs: int) -> None:
    """Hand over to libFuzzer, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["semcast"]):
        from fuzz_targets import one_input, seeds

    corpus = OUT / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        (corpus / sha1(seed).hexdigest()).write_bytes(seed)
    options = {
        "runs": runs,
        "max_len": INPUT_BYTES_MAX,
        "timeout": TIMEOUT_S,
        "rss_limit_mb": MEMORY_MIB,
        "artifact_prefix": f"{OUT}/",
        "print_final_stats": 1,
    }
    atheris.Setup([sys.argv[0], *(f"-{k}={v}" for k, v in options.items()), str(corpus)], one_input)
    atheris.Fuzz()


def blind(runs: int) -> int:
    """Mutate seeds and make up bytes; 1 at the first failure."""
    from fuzz_targets import one_input, seeds

    for data in mutations(list(seeds()), runs, Random(runs)):
        try:
            one_input(data)
        except Exception:
            traceback.print_exc()
            path = OUT / f"crash-{sha1(data).hexdigest()}"
            OUT.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"failed, as does: {sys.argv[0]} {path}", file=sys.stderr)
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
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("inputs", nargs="*", type=Path, help="run these alone")
    arguments = parser.parse_args()
    if arguments.inputs:
        from fuzz_targets import one_input

        for path in arguments.inputs:
            one_input(path.read_bytes())
        return 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("fuzz: atheris is not installed, so inputs are mutated blindly", file=sys.stderr)
        return blind(arguments.runs)
    guided(arguments.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
