"""The command `latentmdp`, also as `python -m latentmdp`.

Nothing is imported up here but what Python has loaded anyway: Ctrl-C may come while the rest is
being loaded, and then it too ends with one line.
"""

import sys


def main() -> None:
    """The entry point of the command `latentmdp`."""
    try:
        from latentmdp import cli

        cli.main()
    except KeyboardInterrupt:
        from latentmdp._interrupts import INTERRUPTED, ignore_interrupts

        ignore_interrupts()  # no traceback while Python ends
        print("latentmdp: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
