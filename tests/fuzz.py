"""Starts workers on mutants of a kind of file, watches them, and goes on after one that died.

    python tests/fuzz.py 1000 [KIND ...]      # crafted mutants of each kind: how many are bad

A bad outcome is a traceback of any kind but `ModelError`, a crash, or more time or memory than a
small file may cost.
"""

import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
SECONDS = 20.0  # of one mutant: a wait this long is a hang
START_SECONDS = 300.0  # until the first mutant: kernels may have to be compiled
MEGABYTES = 1000  # of address space beyond what a worker has when it begins


def fuzz(kind, count, *, crafted=True, first=0, source=None):
    """How often each outcome came of mutants `first` to `first + count`; those that are bad."""
    outcomes, bad = Counter(), []
    number, end = first, first + count
    while number < end:
        for i, outcome in _watched(kind, number, end - number, crafted, source):
            number = i + 1
            outcomes[outcome.split(":")[0]] += 1
            if outcome.startswith("bad"):
                bad.append(f"{kind} {i}{' crafted' if crafted else ''}: {outcome[5:]}")
    return outcomes, bad


def _watched(kind, first, count, crafted, source):
    """`(number, outcome)` of mutants, until the worker is done or has died of one."""
    paths = [str(HERE), *([] if source is None else [str(source)])]
    command = [sys.executable, "-W", "ignore", str(HERE / "fuzz_worker.py"), kind]
    command += [str(first), str(count), str(int(crafted)), str(MEGABYTES)]
    worker = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(reversed(paths))},
    )  # fmt: skip
    lines = queue.Queue()
    threading.Thread(target=_pump, args=(worker.stdout, lines), daemon=True).start()
    errors = []
    threading.Thread(target=lambda: errors.append(worker.stderr.read()[-2000:])).start()
    at = None
    try:
        while True:
            try:
                line = lines.get(timeout=START_SECONDS if at is None else SECONDS)
            except queue.Empty:
                yield first if at is None else at, f"bad: no answer in {SECONDS:g} s"
                return
            if line is None:
                break
            begun, _, outcome = line.partition(" ")
            at = int(begun)
            if outcome:
                yield at, outcome
                at += 1
        code = worker.wait()
        if at is None:
            raise AssertionError(f"the worker of {kind} did not begin: {''.join(errors)}")
        if code != 0:
            yield at, f"bad: the process died with {code}: {''.join(errors)[-300:]}"
    finally:
        worker.kill()
        worker.wait()


def _pump(stream, lines):
    for line in stream:
        lines.put(line.strip())
    lines.put(None)


def main():
    """Print a table; `FUZZ_SOURCE` names another source tree than this one's."""
    sys.path.insert(0, str(HERE))
    from fuzz_worker import KINDS

    count, *kinds = sys.argv[1:] or ["100"]
    for crafted in (True, False):
        total = Counter()
        for kind in kinds or KINDS:
            source = os.environ.get("FUZZ_SOURCE")
            outcomes, bad = fuzz(kind, int(count), crafted=crafted, source=source)
            total += outcomes
            print(f"{kind:28} {'crafted' if crafted else 'damaged'} {dict(outcomes)}", flush=True)
            for text, times in Counter(b.partition(": ")[2] for b in bad).most_common(12):
                example = next(b for b in bad if b.endswith(text)).split(":")[0]
                print(f"    {times:5} x {text}  ({example})", flush=True)
        print(f"{'all':28} {dict(total)}", flush=True)


if __name__ == "__main__":
    main()
