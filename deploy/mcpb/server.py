"""What a bundle runs: `openclaw mcp-server`."""

import sys

from openclaw.cli.main import main

sys.argv[1:1] = ["mcp-server"]
sys.exit(main())
