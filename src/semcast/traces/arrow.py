"""pyarrow, loaded when first needed: it is large, and an extra of the package."""

import importlib
import sys
from typing import Any

from semcast.terms.errors import ConfigError


def pyarrow(module: str = "") -> Any:
    """pyarrow or one of its modules."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise ConfigError(
            "pyarrow: not installed, needed for Parquet files; pip install semcast[lab]"
        ) from None


class _NoPandas:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def spare_pandas() -> None:
    """Keep pyarrow from importing pandas, for a command that reads files in this process.

    pyarrow imports pandas, if there is one, when it first makes an array, only to recognise a
    Series.  That is two thirds of the processor time of a short command.  pyarrow asks once; what
    converts to pandas later imports it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pyarrow().array([])
        finally:
            sys.meta_path.remove(_NoPandas)
