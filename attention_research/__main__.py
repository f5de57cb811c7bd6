"""`python -m attention_research` is the command `attention-research`."""

import sys

from attention_research.cli import main

sys.exit(main())
