"""A folder of machine code: nobody else can write to it, and it is checked before use.

Numba unpickles and runs whatever lies in its cache. So the folder must be ours alone, and it must
hold the files that we wrote, bit by bit. Otherwise it is deleted, and its kernels are compiled
again.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

SEALS = "seals.json"
LOCK_SECONDS = 10.0  # longer than a kernel takes to be written


def sealed_folder(base: Path, name: str) -> Path:
    """The folder `base/name`, private and with nothing in it but what we wrote.

    An OSError says why there can be none.
    """
    _make_private(base)
    folder = base / name
    if not _is_whole(folder):
        lock = _hold(folder)
        try:
            if not _is_whole(folder):  # and nobody is writing to it
                _remove(folder)
                _make_private(folder)
                _write_seals(folder, {})
        finally:
            lock.release()
    return folder


def _make_private(folder: Path) -> None:
    """Make the folder, or see that it is ours and that nobody else can change it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    _check_private(folder)


def _check_private(folder: Path) -> None:
    if not hasattr(os, "geteuid"):
        return  # Windows: a person's folders are private already
    found, around = os.lstat(folder), os.stat(folder.parent)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} must be a folder")
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} must belong to you; it belongs to user {found.st_uid}")
    if found.st_mode & 0o022:
        raise PermissionError(f"{folder} must be writable by you alone (chmod go-w)")
    if around.st_mode & 0o002 and not around.st_mode & stat.S_ISVTX:
        raise PermissionError(f"{folder.parent} must not let everybody rename what is in it")


def _remove(path: Path) -> None:
    """Delete a file, a link, or a folder with all that is in it."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    os.chmod(path, 0o700)
    for entry in os.scandir(path):
        if entry.is_dir(follow_symlinks=False):
            os.chmod(entry.path, 0o700)
    shutil.rmtree(path)


# ---------------------------------------------------------------- what is there


def _is_whole(folder: Path) -> bool:
    """Whether it is private, can be written to, and holds exactly what has been sealed."""
    try:
        _check_private(folder)
        places = [folder, *(path for path in folder.iterdir() if path.is_dir())]
        usable = all(os.access(place, os.R_OK | os.W_OK | os.X_OK) for place in places)
        return usable and _contents(folder) == _read_seals(folder)
    except OSError:
        return False


def _contents(folder: Path) -> dict[str, str | None]:
    """The digest of each file but the list of seals; links, pipes and the like have none."""
    found = {}
    for top, folders, files in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(top, name))]
        for path in (Path(top, name) for name in (*files, *links)):
            found[path.relative_to(folder).as_posix()] = _digest(path)
    if found.get(SEALS) is not None:
        del found[SEALS]
    return found


def _digest(path: Path) -> str | None:
    """Of a file of ours that can be read; nothing else has one."""
    with suppress(OSError):
        found = os.lstat(path)
        mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        if mine and stat.S_ISREG(found.st_mode):
            return hashlib.sha256(path.read_bytes()).hexdigest()
    return None


def _read_seals(folder: Path) -> dict[str, str | None] | None:
    """The digest of each sealed file by its name; None if the list is missing or damaged."""
    try:
        seals = json.loads((folder / SEALS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return seals if isinstance(seals, dict) and None not in seals.values() else None


# ---------------------------------------------------------------- writing


class Sealing:
    """From here to `end`, what is written to the folder gets its seal; one process at a time.

    Numba's own index of a kernel would mix up two processes that write to it at once. An OSError
    says that the folder cannot be held: what is written then gets no seal, and does not count.
    """

    def __init__(self, folder: Path) -> None:
        _make_private(folder.parent)  # someone may have deleted it
        _make_private(folder)
        self.folder, self._lock = folder, _hold(folder)
        self._before = _contents(folder)

    def end(self) -> None:
        """Seal what is new."""
        try:
            after = _contents(self.folder)
            new = {name: seal for name, seal in after.items() if self._before.get(name) != seal}
            if new:
                old = _read_seals(self.folder) or {}
                kept = {name: seal for name, seal in old.items() if name in after}
                _write_seals(self.folder, kept | new)
        finally:
            self._lock.release()


def _write_seals(folder: Path, seals: dict[str, str | None]) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(seals, file)
        os.replace(temporary, folder / SEALS)
    except OSError:
        os.unlink(temporary)
        raise


def _hold(folder: Path) -> "BaseFileLock":
    """A lock against other processes, taken; an OSError says why that cannot be."""
    from filelock import FileLock  # loaded only where something is written

    path = folder.with_name(f"{folder.name}.lock")
    if path.is_symlink() or path.is_dir():
        _remove(path)
    lock = FileLock(path, timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except NotImplementedError as error:  # by this file system
        raise OSError(str(error)) from None
    return lock
