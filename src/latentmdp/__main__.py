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
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # no traceback from the way out
        print("latentmdp: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
