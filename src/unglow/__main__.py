"""``python -m unglow``: the command, by the interpreter that is meant."""

import sys

from unglow.cli import main

sys.exit(main())
