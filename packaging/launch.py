"""Entry point of the packaged app."""

import sys
import time

# As near to the start of the process as Python code can be.
_STARTED = time.perf_counter()

if __name__ == "__main__":
    from multiprocessing import freeze_support

    # A library that makes a lock starts this program again as its helper.
    freeze_support()
    from studio.__main__ import main

    sys.exit(main())
