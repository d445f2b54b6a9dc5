"""`python -m semcast` is the command `semcast`."""

import sys

from semcast.cli.entry import main

sys.exit(main())
