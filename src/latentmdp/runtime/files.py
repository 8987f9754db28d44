"""Reading and writing files safely: plain refusals, bounded reading, all-or-nothing writing."""

import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from latentmdp.errors import ModelError

try:
    import fcntl
except ImportError:  # Windows
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

PathLike = str | os.PathLike[str]
Writer = Callable[[BinaryIO], None]


LONGEST_LINE = 500  # characters of a refusal: what it quotes may be long


class FileError(ModelError):
    """A refusal that names its file already."""


def refusal(path: PathLike, text: str) -> FileError:
    """To be raised: the file's name, then what is wrong with it, in one line that can be read."""
    line = " ".join(text.split())
    return FileError(f"{shown(path)}: {line[:LONGEST_LINE]}{' ...' * (len(line) > LONGEST_LINE)}")


def shown(path: PathLike) -> str:
    """The path as one printable piece of a sentence: control characters are escaped."""
    try:
        text = os.fspath(path)
    except TypeError:
        text = repr(path)
    return text if isinstance(text, str) and text.isprintable() and text else repr(text)


def reason(error: BaseException) -> str:
    """What an exception says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if isinstance(error, MemoryError):
        return "not enough memory"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__


def as_path(path: PathLike) -> Path:
    """`path` as a Path; refuses what can be no file name."""
    if not isinstance(path, (str, os.PathLike)):
        raise ModelError(f"a file name must be text or a path; found {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise ModelError(f"a file name must be text without null characters; found {text!r}")
    return Path(text)


def make_folder(folder: PathLike) -> Path:
    """Make the folder, unless it is there."""
    place = as_path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelError(
            f"{place} must be a folder that can be written: {error.strerror}"
        ) from None
    return place


def regular_file(path: PathLike) -> Path:
    """The path of an existing, regular, non-empty file, or one clear refusal.

    Folders, pipes and devices are refused before anything is opened: opening a pipe waits forever,
    and reading a device never ends.
    """
    found = as_path(path)
    try:
        status = os.stat(found)
    except FileNotFoundError:
        raise refusal(path, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise refusal(path, f"cannot be read: {reason(error)}") from None
    if stat.S_ISDIR(status.st_mode):
        raise refusal(path, "must be a file; it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise refusal(path, "must be a regular file; it is a pipe or a device")
    if status.st_size == 0:
        raise refusal(path, "the file is empty")
    return found


@contextmanager
def opened(path: PathLike) -> Iterator[BinaryIO]:
    """The bytes of a regular file, opened for reading."""
    found = regular_file(path)
    with ExitStack() as closing:
        try:
            file = closing.enter_context(open(found, "rb"))
        except OSError as error:
            raise refusal(path, f"cannot be read: {reason(error)}") from None
        yield file


def read_text(path: PathLike) -> str:
    """The whole file as UTF-8 text (a byte order mark is dropped)."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > memory_budget() // 8:  # parsed text takes several times its length
            raise refusal(path, f"{size} bytes of text are too much for this machine")
        try:
            return file.read().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            at = error.start
            raise refusal(path, f"must be UTF-8 text; byte {at} is not") from None
        except (OSError, MemoryError) as error:
            raise refusal(path, f"cannot be read: {reason(error)}") from None


@cache
def memory_budget() -> int:
    """Bytes that one file's arrays may claim: a quarter of this machine's or container's memory."""
    sizes = []
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(OSError, ValueError):
        sizes.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min((size for size in sizes if size > 0), default=2**33) // 4


def writer_of(raw: bytes) -> Writer:
    """What writes these bytes into an open file."""

    def write(file: BinaryIO) -> None:
        file.write(raw)

    return write


def write_atomically(path: PathLike, write: Writer) -> None:
    """`write` fills a temporary file beside `path`, which then takes its place in one step."""
    write_together([(path, write)])


def write_together(targets: list[tuple[PathLike, Writer]]) -> None:
    """Write several files: all are complete and on disk before the first takes its name.

    They take it in the order given. Whatever goes wrong before, the old files stay as they were and
    no temporary file is left; those of a killed process go when the next one writes there.
    """
    with ExitStack() as cleanup:
        ready = []
        for path, write in targets:
            target = _writable_target(path)
            try:
                temporary = _fill_temporary(target, write, cleanup)
            except (OSError, MemoryError) as error:
                raise refusal(path, f"cannot be written: {reason(error)}") from None
            ready.append((path, temporary, target))
        for path, temporary, target in ready:
            try:
                os.replace(temporary, target)
            except OSError as error:
                raise refusal(path, f"cannot be written: {reason(error)}") from None
            sync_folder(target.parent)


def check_writable(path: PathLike) -> None:
    """Refuse before an hour of work what could not be written after it; leaves nothing behind."""
    with ExitStack() as cleanup:
        target = _writable_target(path)
        try:
            _fill_temporary(target, lambda file: None, cleanup)
        except OSError as error:
            raise refusal(path, f"cannot be written: {reason(error)}") from None


def _writable_target(path: PathLike) -> Path:
    """Where the bytes really go (links are followed), if a regular file may stand there."""
    try:
        target = Path(os.path.realpath(as_path(path)))
        if not target.parent.is_dir():
            raise refusal(path, "cannot be written: its folder does not exist")
        if target.is_dir():
            raise refusal(path, "cannot be written: it is a folder")
        if target.exists():
            if not target.is_file():
                raise refusal(path, "cannot be written: it is no regular file")
            if not os.access(target, os.W_OK):
                raise refusal(path, "cannot be written: it is read-only")
    except OSError as error:
        raise refusal(path, f"cannot be written: {reason(error)}") from None
    return target


def _fill_temporary(target: Path, write: Writer, cleanup: ExitStack) -> Path:
    if target.parent not in _swept:
        _swept.add(target.parent)
        _sweep(target.parent)
    temporary, descriptor = _new_temporary(target, cleanup)
    with open(descriptor, "wb") as file:
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        write(file)
        file.flush()
        os.fsync(file.fileno())
    return temporary


# ---------------------------------------------------------------- temporary files

ENDING = ".latentmdp.tmp"
_swept: set[Path] = set()  # folders in which this process has looked for leftovers


def _new_temporary(target: Path, cleanup: ExitStack) -> tuple[Path, int]:
    """A new file beside the target, open and locked; `cleanup` removes it and ends the lock."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.parent / f".{target.name[:80]}.{secrets.token_hex(8)}{ENDING}"
        descriptor = os.open(temporary, flags, 0o666)  # the user's umask applies
        cleanup.callback(temporary.unlink, missing_ok=True)  # after the rename nothing is left
        locked = lock_file(descriptor)
        if locked:  # until the file has its name, so that nobody takes it for a leftover
            cleanup.callback(os.close, os.dup(descriptor))
        if locked is not False and temporary.exists():
            return temporary, descriptor
        os.close(descriptor)  # swept away before it was locked


def _sweep(folder: Path) -> None:
    """Remove our temporary files whose process is gone: nobody holds their lock any more."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.startswith(".") and entry.name.endswith(ENDING):
                with suppress(OSError):
                    _remove_leftover(entry.path)


def _remove_leftover(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        ours = not hasattr(os, "getuid") or os.fstat(descriptor).st_uid == os.getuid()
        if ours and lock_file(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


def lock_file(descriptor: int, shared: bool = False) -> bool | None:
    """Lock an open file; False if another process holds it, None where there are no locks.

    Several processes may have a `shared` lock, but none beside one that is not. The system ends a
    lock with its process, however that ends.
    """
    if not HAS_LOCKS:
        return None
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system allows it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
