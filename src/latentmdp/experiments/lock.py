"""One driver per study: a second one stops and names the process that holds the lock."""

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from latentmdp.errors import ModelError
from latentmdp.runtime.files import lock_file, make_folder, reason, shown

FILE = "study.lock"
LOOK_SECONDS = 0.02
LOOKS = 10  # before a driver is refused: a reader holds the lock for a moment


@contextmanager
def held(
    folder: Path, wait: bool = False, say: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Hold a study's folder; the system ends the lock with the process, however that ends."""
    path = make_folder(folder) / FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise ModelError(
            f"{shown(folder)} must be a folder where {FILE} can be written: {reason(error)}"
        ) from None
    try:
        said, looks = False, 0
        while lock_file(descriptor) is False:
            looks += 1
            if looks < LOOKS:
                time.sleep(LOOK_SECONDS)
                continue
            if not wait:
                raise ModelError(
                    f"{folder} must not be in use; {holder(folder)} runs this study: wait for it "
                    "(--wait)"
                )
            if say is not None and not said:
                said = True
                say(f"waiting: {holder(folder)} runs this study")
            time.sleep(LOOK_SECONDS)
        _sign(descriptor)
        try:
            yield
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(folder: Path) -> str:
    """The process that holds the lock, in words."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return f"process {found['pid']} on {found['machine']}, since {found['since']},"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def is_held(folder: Path) -> bool:
    """Whether a driver is running. Readers share the lock, so they do not block each other."""
    try:
        descriptor = os.open(
            folder / FILE, os.O_RDONLY
        )  # the reader may not be allowed to write there
    except OSError:
        return False
    try:
        return lock_file(descriptor, shared=True) is False
    finally:
        os.close(descriptor)


def _sign(descriptor: int) -> None:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "machine": platform.node(), "since": since})
    with suppress(OSError):  # a full disk does not matter here
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
