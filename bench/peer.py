"""One process of another system under `semcast bench`: `python bench/peer.py SYSTEM`.

It reads a plan and writes reports, as Semcast's own workers do.
"""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module(f"peers.{sys.argv[1]}").work())
