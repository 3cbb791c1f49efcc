"""`python -m overlord` is the command `overlord`."""

import sys

from overlord.cli import main

if __name__ == "__main__":
    sys.exit(main())
