#!/usr/bin/env python3
"""Print whether a job is running, has ended well (success) or has failed."""

import sys

from schedulers import chosen

print(chosen().state(sys.argv[1]))
