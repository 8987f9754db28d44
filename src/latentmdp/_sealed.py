"""A folder of machine code: nobody else can write to it, and its files are checked before use.

Numba unpickles and runs whatever lies in its cache. So the folder must be ours alone, and a file in
it counts only if it has the digest that was noted when we wrote it. All else is deleted, and then
compiled again.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SEALS, LOCK = "seals.json", "lock"
LOCK_SECONDS = 10.0  # longer than a kernel takes to be written; then we go on without the lock


def sealed_folder(base: Path, name: str) -> Path:
    """The folder `base/name`, private and with nothing in it but what we wrote.

    An OSError says why there can be none.
    """
    _make_private(base)
    folder = base / name
    with suppress(FileNotFoundError):
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode):
            folder.unlink()
        elif found.st_mode & 0o022:  # others may have put files there
            shutil.rmtree(folder)
    _make_private(folder)
    inner = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    for place in (str(folder), *inner):
        os.chmod(place, 0o700)
    with tempfile.TemporaryFile(dir=folder):
        pass  # it can be written to
    _check(folder)
    return folder


def discard(folder: Path) -> None:
    """Delete all of it, as far as that goes."""
    with _locked(folder):
        for path in _inside(folder):
            if path != folder / LOCK:
                with suppress(OSError):
                    _remove(path)


def _remove(path: Path) -> None:
    """Delete a file, a link or an empty folder."""
    with suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _make_private(folder: Path) -> None:
    """Make the folder, or see that it is ours and that nobody else can change it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
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


# ---------------------------------------------------------------- checking


def _check(folder: Path) -> None:
    """Delete what is not as we wrote it, and what writers that were killed left behind."""
    if not _unsealed(folder):
        return
    with _locked(folder):  # nobody is writing now: look again
        for path in _unsealed(folder):
            _remove(path)


def _unsealed(folder: Path) -> list[Path]:
    """What must go: files that do not have their seal, and whatever else lies around."""
    seals, bad = _read_seals(folder), []
    for path in _inside(folder):
        if path.parent == folder and not path.is_symlink() and path.is_dir():
            wanted = path not in (folder / SEALS, folder / LOCK)  # where Numba puts its files
        elif path in (folder / SEALS, folder / LOCK):
            wanted = not path.is_symlink()
        else:
            digest = _digest(path)
            wanted = digest is not None and digest == seals.get(_name(path, folder))
        if not wanted:
            bad.append(path)
    return bad


def _inside(folder: Path) -> Iterator[Path]:
    """All files and folders inside, folders after what they hold; links are not followed."""
    for top, folders, files in os.walk(folder, topdown=False):
        yield from (Path(top, name) for name in (*files, *folders))


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix()


def _digest(path: Path) -> str | None:
    """Of a file of ours that can be read; nothing else has one."""
    try:
        found = os.lstat(path)
        mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
        if mine and stat.S_ISREG(found.st_mode):
            return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        pass
    return None


def _read_seals(folder: Path) -> dict[str, str]:
    """The digest of each file by its name; none if the list itself is damaged."""
    try:
        seals = json.loads((folder / SEALS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return seals if isinstance(seals, dict) else {}


# ---------------------------------------------------------------- writing


class Sealing:
    """From here to `end`, what is written to the folder gets its seal; one process at a time.

    Numba's own index of a kernel would mix up two processes that write to it at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._held = folder, ExitStack()
        with suppress(OSError):  # someone may have deleted it
            _make_private(folder.parent)
            _make_private(folder)
        self._held.enter_context(_locked(folder))
        self._before = _versions(folder)

    def end(self) -> None:
        """Seal what is new."""
        with self._held:
            after = _versions(self._folder)
            new = {path for path, version in after.items() if self._before.get(path) != version}
            if new:
                _write_seals(self._folder, new)


def _versions(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What tells whether a file was replaced."""
    found = {}
    for path in _inside(folder):
        with suppress(FileNotFoundError):
            status = path.lstat()
            found[path] = (status.st_ino, status.st_mtime_ns, status.st_size)
    return found


def _write_seals(folder: Path, new: set[Path]) -> None:
    seals = {name: seal for name, seal in _read_seals(folder).items() if (folder / name).exists()}
    ours = {folder / SEALS, folder / LOCK}
    seals |= {_name(path, folder): seal for path in new - ours if (seal := _digest(path))}
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(seals, file)
        os.replace(temporary, folder / SEALS)
    except OSError:
        os.unlink(temporary)
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder against other processes, as far as its file system can."""
    from filelock import FileLock, Timeout  # loaded only where something is written

    lock = FileLock(folder / LOCK, timeout=LOCK_SECONDS)
    with suppress(Timeout, OSError, NotImplementedError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
