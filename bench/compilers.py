"""One kernel through several compilers: what decision 0023 rests on.

plain.py as it is, under CPython; through mypyc; through Cython alone; and as it is installed,
through Cython with compiled.pxd, which tells where the fields of a message lie.
"""

import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from kernel_work import work
from side_by_side import side_by_side

from semcast import kernel

PLAIN = Path(kernel.plain.__file__)
SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
COMMANDS = {
    "by_mypyc": ["mypyc", f"--config-file={SETTINGS}", "by_mypyc.py"],
    "by_cython": ["cythonize", "-3", "-i", "-q", "by_cython.py"],
}


def main() -> None:
    """Compile, measure, print the table."""
    kernels = {"plain": kernel.plain}
    with TemporaryDirectory() as place:
        for name, (tool, *arguments) in COMMANDS.items():
            shutil.copy(PLAIN, Path(place, f"{name}.py"))
            command = [Path(sys.executable).with_name(tool), *arguments]
            subprocess.run(command, cwd=place, check=True, capture_output=True)
            Path(place, f"{name}.py").unlink()
        sys.path.insert(0, place)
        kernels |= {name: import_module(name) for name in COMMANDS}
        kernels["as installed"] = kernel.load_compiled()
        print(
            f"Python {sys.version.split()[0]}, mypy {version('mypy')}, Cython {version('cython')}"
        )
        print(f"{'ns/message':16}" + "".join(f"{name:>14}" for name in kernels))
        candidates = {name: work(built) for name, built in kernels.items()}
        for function in candidates["plain"]:
            rounds = side_by_side({name: made[function] for name, made in candidates.items()})
            best = "".join(f"{min(seconds) * 1e9:14.0f}" for seconds in rounds.values())
            print(f"{function:16}{best}", flush=True)


if __name__ == "__main__":
    main()
