"""`python -m openclaw` is the command `openclaw`."""

from openclaw.cli.main import main

main()
