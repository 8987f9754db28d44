"""The command line: parse, call, print. Each command lives in `latentmdp.commands`.

Exit code 0 on success, 2 on bad input with one line on standard error, 130 when interrupted.
"""

import gc
import json
import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from latentmdp._version import __version__
from latentmdp.commands.audit import audit_command
from latentmdp.commands.common import listed
from latentmdp.commands.compile import compile_command
from latentmdp.commands.convert import convert_command
from latentmdp.commands.datasets import datasets_command
from latentmdp.commands.demo import demo_command
from latentmdp.commands.domains import domains_command
from latentmdp.commands.evaluate import evaluate_command
from latentmdp.commands.fit import fit_command
from latentmdp.commands.learn import learn_command
from latentmdp.commands.lower_bound import lower_bound_command
from latentmdp.commands.off_policy import off_policy_command
from latentmdp.commands.output import PartlyDoneError
from latentmdp.commands.plan import plan_command
from latentmdp.commands.report import report_command
from latentmdp.commands.show import show_command
from latentmdp.commands.study import study_app
from latentmdp.errors import (
    DamagedStudyWarning,
    KernelCacheWarning,
    ModelError,
    OffPolicyWarning,
    RepairWarning,
    printable,
)
from latentmdp.runtime.choices import ALGORITHMS, CLASSES, ESTIMATORS, METHODS
from latentmdp.runtime.interrupts import INTERRUPTED, ignore_interrupts, resend_lost_interrupts

OWN_WARNINGS = (DamagedStudyWarning, KernelCacheWarning, OffPolicyWarning, RepairWarning)
_PLAIN_FORMAT = warnings.formatwarning
# Click's base of all usage errors; where Typer keeps it differs between versions
UsageError: type[Any] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)

EPILOGS = {  # below the options of a command: what can be chosen by name
    "learn": listed("Algorithms", ALGORITHMS) + "\n\n" + listed("Classes", CLASSES),
    "plan": "\n\n".join(
        [
            listed("Classes", CLASSES),
            *(listed(f"Methods of the {name} class", METHODS[name]) for name in METHODS),
        ]
    ),
    "off-policy": listed("Methods", ESTIMATORS),
    "lower-bound": listed("Algorithms", ALGORITHMS),
}

app = typer.Typer(
    name="latentmdp",
    help="""Plan and learn in latent MDPs with context in hindsight.

    Each episode has a hidden context, which becomes known when the episode is over. A MODEL is a
    file or the name of a built-in model, such as maze or maze:size=5,goals=4. Begin with
    `latentmdp show maze` or `latentmdp demo`. `latentmdp COMMAND --help` describes a command.""",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: shorter, and the same in a pipe
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, function, short in (
    ("demo", demo_command, "Plan, learn, audit and report in a maze with hidden goals."),
    ("show", show_command, "Describe a model: sizes, totals, how contexts differ, a picture."),
    ("domains", domains_command, "List the built-in models (spec strings like maze:size=5)."),
    ("datasets", datasets_command, "List published problems with published values and our bounds."),
    ("convert", convert_command, "Write a model to a file of another format."),
    ("plan", plan_command, "Find the best policy of a known model, with a proven bound."),
    ("evaluate", evaluate_command, "Compute the exact value and variance of a policy."),
    ("learn", learn_command, "Run a learner in a simulated model; its regret, with bounds."),
    ("fit", fit_command, "Fit a model, and a policy, to a log of past episodes."),
    ("off-policy", off_policy_command, "Estimate the value of a policy from a log of another one."),
    ("audit", audit_command, "Check every lemma of the paper's proof on a saved run."),
    ("report", report_command, "Write one HTML page about saved runs."),
    ("lower-bound", lower_bound_command, "Run a learner on the paper's hard instances."),
    ("compile", compile_command, "Compile all kernels now, so that first runs start fast."),
):
    app.command(name, short_help=short, epilog=EPILOGS.get(name))(function)
app.add_typer(
    study_app, name="study", short_help="Run a grid of runs that one TOML file describes."
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"latentmdp {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; without any, show the help."""
    if not (sys.argv[1:] if arguments is None else arguments):
        arguments = ["--help"]
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        result = _call(arguments)
        sys.stdout.flush()
    except UsageError as error:
        asked = getattr(getattr(error, "ctx", None), "command_path", "latentmdp")
        return _refuse(f"{error.format_message()} (see {asked} --help)", as_json)
    except ModelError as error:
        return _refuse(str(error), as_json)
    except MemoryError:
        return _refuse("not enough memory", as_json)
    except (KeyboardInterrupt, typer.Abort):
        result = INTERRUPTED
    except PartlyDoneError:
        result, as_json = INTERRUPTED, False
    except BrokenPipeError:
        result = _unread()
    except SystemExit as stop:  # Typer's own answer to a broken pipe is exit code 1
        if type(sys.stdout).__name__ != "PacifyFlushWrapper":
            raise stop
        result = _unread()
    except OSError as error:
        words = (error.filename, error.strerror or error)
        return _refuse(": ".join(str(x) for x in words if x), as_json)
    if result == INTERRUPTED:  # Typer's answer to Ctrl-C as well
        return _refuse("interrupted", as_json, INTERRUPTED)
    return result


def _unread() -> int:
    """The reader of our output, such as `head`, has closed it: drop the rest; no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())  # type: ignore[union-attr]
    return 0


def _call(arguments: Sequence[str] | None) -> int:
    result: Any = app(
        args=None if arguments is None else list(arguments),
        prog_name="latentmdp",
        standalone_mode=False,
    )
    return result if isinstance(result, int) else 0


def _refuse(text: str, as_json: bool, code: int = 2) -> int:
    """One line on standard error; with --json also an object with `error`."""
    line = printable(" ".join(text.split()))
    print(f"latentmdp: {line}", file=sys.stderr)
    if as_json:
        with suppress(OSError):  # the disk that standard output goes to may be what is full
            print(json.dumps({"error": line}), flush=True)
    return code


def main() -> None:
    """Run the command that the process was started with, and exit."""
    gc.set_threshold(50_000, 20, 20)  # starting makes many lasting objects: this saves a tenth
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names need not fit the terminal
    resend_lost_interrupts()
    warnings.formatwarning = _one_line
    code = run()
    ignore_interrupts()  # no traceback while Python ends
    sys.exit(code)


def _one_line(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
    """Our own warning in one line, others as Python shows them."""
    if not issubclass(category, OWN_WARNINGS):
        return _PLAIN_FORMAT(message, category, *where, **more)
    return f"latentmdp: {printable(str(message))}\n"


if __name__ == "__main__":
    main()
