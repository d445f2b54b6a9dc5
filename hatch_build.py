"""Compiles the kernel when the package is built; where that cannot be done, the plain one runs.

The parts of it in `src/semcast/kernel` become `semcast.kernel.compiled`: in the wheel, or beside
their source if the install is editable.  `python hatch_build.py` does the latter at once.
"""

import os
import re
import shutil
import sys
import sysconfig
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from Cython.Build import cythonize
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from setuptools import Distribution, Extension

ROOT = Path(__file__).parent
KERNEL = Path("src", "semcast", "kernel")
PARTS = ("reader.py", "run.py", "packing.py", "plain.py")
MODULE = "semcast.kernel.compiled"
OWN_IMPORT = re.compile(
    r"^from semcast\.kernel\.\w+ import (\(.*?\)|.*?)$", re.DOTALL | re.MULTILINE
)
FILE = f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}"
SAFE = {"language_level": 3, "nonecheck": True}  # None among messages is an error, not a crash


class CompiledKernel(BuildHookInterface):  # type: ignore[type-arg]
    """Called by hatchling for every wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled kernel to what goes into the wheel."""
        if version == "editable":
            build_in_place(Path(self.root))
            return
        built = compiled(Path(self.root), Path(self.directory, "kernel"))
        if built is not None:
            build_data["force_include"][str(built)] = f"semcast/kernel/{FILE}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel has its copy."""
        shutil.rmtree(Path(self.directory, "kernel"), ignore_errors=True)


def build_in_place(root: Path) -> None:
    """Bring the compiled kernel of a source tree up to date, or remove one that is out of date."""
    built = root / KERNEL / FILE
    if built.exists() and source_of(root) in built.read_bytes():
        return
    if compiled(root, root / KERNEL) is None:
        built.unlink(missing_ok=True)


def compiled(root: Path, folder: Path) -> Path | None:
    """The compiled kernel of a source tree, in this folder; None where there is no C compiler."""
    with TemporaryDirectory() as place, chdir(place):
        builder = _translate(root)
        try:
            builder.run()
        except Exception as error:  # Each version of setuptools has its own ways to say so.
            print(f"semcast: the plain kernel will run, slower: {error}", file=sys.stderr)
            return None
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(builder.get_ext_fullpath(MODULE), folder / f"{FILE}.new")
    # Whoever runs the old one goes on with it.
    os.replace(folder / f"{FILE}.new", folder / FILE)
    return folder / FILE


def _translate(root: Path) -> Any:
    """What compiles the C of the kernel, by names that mean something in a traceback."""
    package = Path("semcast", "kernel")
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    shutil.copy(root / KERNEL / "compiled.pxd", package)
    source = "".join((root / KERNEL / name).read_text() for name in PARTS)
    source = OWN_IMPORT.sub("", source)  # It is all one module.
    (package / "plain.py").write_text(f"{source}SOURCE = {source_of(root)}\n")
    readable = [("CYTHON_COMPRESS_STRINGS", "0")]  # so that SOURCE can be found in the file
    small = [] if os.name == "nt" else ["-g0"]
    extension = Extension(
        MODULE, [str(package / "plain.py")], define_macros=readable, extra_compile_args=small
    )
    modules = cythonize([extension], compiler_directives=SAFE, quiet=True)
    builder = Distribution({"name": "semcast", "ext_modules": modules}).get_command_obj("build_ext")
    builder.ensure_finalized()
    return builder


def source_of(root: Path) -> bytes:
    """What the kernel is compiled from; built in, so that one of another source is not used."""
    return b"".join((root / KERNEL / name).read_bytes() for name in (*PARTS, "compiled.pxd"))


if __name__ == "__main__":
    build_in_place(ROOT)
