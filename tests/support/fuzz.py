"""Starts workers on mutants of a kind of file, watches them, and goes on after one that died.

    python tests/support/fuzz.py 1000 [KIND ...]      # crafted mutants of each kind: number bad

A bad outcome is a traceback of any kind but `ModelError`, a crash, or more time or memory than a
small file may cost.
"""

import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
CPU_SECONDS = 10.0  # of one mutant: more is a hang, however busy the machine is
SECONDS = 300.0  # without an answer: it waits for something; or kernels are being compiled
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
    paths = [] if source is None else [str(source)]
    paths += [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-W", "ignore", str(HERE / "fuzz_worker.py"), kind]
    command += [str(first), str(count), str(int(crafted)), str(MEGABYTES)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        worker = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
        lines = queue.Queue()
        reader = threading.Thread(target=_pump, args=(worker.stdout, lines), daemon=True)
        reader.start()
        try:
            yield from _outcomes(kind, first, worker, lines, errors)
        finally:
            worker.kill()
            worker.wait()
            reader.join()
            worker.stdout.close()


def _outcomes(kind, first, worker, lines, errors):
    at, heard, spent = None, time.monotonic(), 0.0
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            busy = 0.0 if at is None else _cpu_seconds(worker.pid) - spent
            if busy > CPU_SECONDS or time.monotonic() - heard > SECONDS:
                yield first if at is None else at, f"bad: no answer in {busy:.0f} s of CPU time"
                return
            continue
        if line is None:
            break
        begun, _, outcome = line.partition(" ")
        at, heard, spent = int(begun), time.monotonic(), _cpu_seconds(worker.pid)
        if outcome:
            yield at, outcome
            at += 1
    code = worker.wait()
    errors.seek(0)
    said = errors.read()[-1000:]
    assert at is not None, f"the worker of {kind} did not begin: {said}"
    if code != 0:
        yield at, f"bad: the process died with {code}: {' '.join(said.split())[-200:]}"


def _cpu_seconds(process):
    """CPU time that a process has taken so far."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


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
