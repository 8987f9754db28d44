"""Worker processes end with the one they work for."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = """
import time
from latentmdp._workers import workers

if __name__ == "__main__":
    with workers(2) as pool:
        print(*pool.map(abs, [-1, -2]), flush=True)
        jobs = [pool.submit(time.sleep, 60) for _ in range(2)]
        print(*pool._processes, flush=True)
        time.sleep(60)
"""


def alive(pid: int) -> bool:
    """Whether it runs; one that has ended but is not yet waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to look at processes")
def test_workers_of_a_killed_process_end(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().split() == ["1", "2"]
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        process.send_signal(signal.SIGKILL)
        process.wait()
        until = time.monotonic() + 20.0
        while any(map(alive, pids)) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(map(alive, pids))
