"""The command `latentmdp`, also as `python -m latentmdp`.

Nothing is imported up here but what Python has loaded anyway: Ctrl-C may come while the rest is
being loaded, and then it too ends with one line.
"""

import os
import sys


def main() -> None:
    """The entry point of the command `latentmdp`."""
    _replace_closed_streams()
    try:
        from latentmdp.commands import cli

        cli.main()
    except KeyboardInterrupt:
        from latentmdp.runtime.interrupts import INTERRUPTED, ignore_interrupts

        ignore_interrupts()  # no traceback while Python ends
        print("latentmdp: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _replace_closed_streams() -> None:
    """Nobody reads a stream that was closed; no other file may get its descriptor."""
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            file = open(os.devnull, "r" if number == 0 else "w", encoding="utf-8")  # noqa: SIM115
            if file.fileno() != number:
                os.dup2(file.fileno(), number)
            setattr(sys, name, file)
            setattr(sys, f"__{name}__", file)


if __name__ == "__main__":
    main()
