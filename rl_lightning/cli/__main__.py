"""`python -m rl_lightning.cli`: how a run starts its children, whatever the PATH."""

import sys

from rl_lightning.cli.main import main

sys.exit(main())
