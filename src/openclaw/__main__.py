"""`python -m openclaw` is the command `openclaw`."""

import sys

from openclaw.cli.main import main

sys.exit(main())
