"""`python -m bayeslaw`: the command line."""

from bayeslaw.cli.main import main

main()
