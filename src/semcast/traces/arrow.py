"""pyarrow, loaded when first needed: it is large, and an extra of the package."""

import importlib
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
