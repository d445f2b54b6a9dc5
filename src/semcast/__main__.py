"""`python -m semcast` is the command `semcast`."""

import sys

from semcast.cli.main import main

sys.exit(main())
