"""Commands as another user, who may read the sources but not the files: `test_permissions.py`.

    python other_user.py FOLDER < [[warm, real], ...]     # lists of arguments

The interpreter itself may be out of this user's reach. So each command is first run as root, on
files that can be read, which loads what it needs; then this process becomes the other user, for
good. Prints a list of `[code, output, errors]`.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

STRANGER = 65534


def as_stranger(folder: Path, pairs: list[list[list[str]]]) -> list[tuple[int, str, str]]:
    """What the second command of each pair answers, after the first one has been run as root."""
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], input=json.dumps(pairs), capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(found) for found in json.loads(done.stdout)]


def become_stranger() -> None:
    """Give up root's rights."""
    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)


def main() -> None:
    """Run the commands."""
    from latentmdp.commands import cli

    def run(arguments: list[str]) -> tuple[int, str, str]:
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = cli.run(arguments)
        return code, said.getvalue(), errors.getvalue()

    pairs = json.load(sys.stdin)
    for warm, _ in pairs:
        code, said, errors = run(warm)
        assert code == 0, (warm, said, errors)
    become_stranger()
    os.chdir(sys.argv[1])
    print(json.dumps([run(real) for _, real in pairs]))


if __name__ == "__main__":
    main()
