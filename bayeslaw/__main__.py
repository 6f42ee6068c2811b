"""The command line, as `bayeslaw` and as `python -m bayeslaw`."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Import the command line and run it; Ctrl-C before a command begins ends the process without a traceback."""
    if waits := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bayeslaw.cli.main import INTERRUPTED, main

    try:
        if waits:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        main()
    except KeyboardInterrupt:  # while the commands are put together: those that run turn it into an exit themselves
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
