"""The command line, as `bayeslaw` and as `python -m bayeslaw`."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line and run it; Ctrl-C while packages are imported ends the process without a traceback."""
    if waits := signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from bayeslaw.cli.main import main

    if waits:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


if __name__ == "__main__":
    main()
