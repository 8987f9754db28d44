"""A damaged, foreign or unsafe cache of compiled kernels costs time, and nothing else."""

import hashlib
import json
import os
import pickle
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kernel_package import Kept, Package, without_override

import latentmdp as lm
from latentmdp.runtime.sealed import Sealing, sealed_folder

ROOT = os.geteuid() == 0
STRANGER = 54321


class Payload:
    """What another user would like us to unpickle."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()
    (file / "something").touch()


def file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("not a folder")


def seal_again(folder: Path) -> None:
    """Anyone can compute a digest."""
    files = [path for path in folder.rglob("*.nb?") if path.is_file()]
    seals = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    (folder / "seals.json").write_text(json.dumps(seals))


def plant(kept: Kept, payload: bytes) -> None:
    kept.index.write_bytes(payload)
    seal_again(kept.folder)


def link_instead(file: Path, payload: bytes) -> None:
    elsewhere = file.parents[2] / "elsewhere"
    elsewhere.write_bytes(payload)
    file.unlink()
    file.symlink_to(elsewhere)


DAMAGES = {  # a kernel's files, another kernel's files, bytes that must not be unpickled
    "index cut": lambda its, other, payload: halve(its.index),
    "code cut": lambda its, other, payload: halve(its.code),
    "index empty": lambda its, other, payload: os.truncate(its.index, 0),
    "code empty": lambda its, other, payload: os.truncate(its.code, 0),
    "index flipped": lambda its, other, payload: flip(its.index),
    "code flipped": lambda its, other, payload: flip(its.code),
    "index foreign": lambda its, other, payload: its.index.write_bytes(payload),
    "code foreign": lambda its, other, payload: its.code.write_bytes(payload),
    "index text": lambda its, other, payload: its.index.write_text("no pickle"),
    "index a folder": lambda its, other, payload: folder_instead(its.index),
    "code a folder": lambda its, other, payload: folder_instead(its.code),
    "index of another": lambda its, other, payload: shutil.copy(other.index, its.index),
    "code of another": lambda its, other, payload: shutil.copy(other.code, its.code),
    "index missing": lambda its, other, payload: its.index.unlink(),
    "code missing": lambda its, other, payload: its.code.unlink(),
    "code a link": lambda its, other, payload: link_instead(its.code, payload),
    "code a pipe": lambda its, other, payload: (its.code.unlink(), os.mkfifo(its.code)),
    "stray file": lambda its, other, payload: Path(f"{its.index}.tmp.01").write_bytes(payload),
    "seals cut": lambda its, other, payload: halve(its.seals),
    "seals a list": lambda its, other, payload: its.seals.write_text("[[1], 2]"),
    "seals nested": lambda its, other, payload: its.seals.write_text("[" * 100_000),
    "seals a folder": lambda its, other, payload: folder_instead(its.seals),
    "lock a folder": lambda its, other, payload: folder_instead(its.lock),
    "folder missing": lambda its, other, payload: shutil.rmtree(its.folder),
    "folder a file": lambda its, other, payload: file_instead(its.folder),
    "inner folder a file": lambda its, other, payload: file_instead(its.index.parent),
    "inner folder read-only": lambda its, other, payload: its.index.parent.chmod(0o500),
    "folder read-only": lambda its, other, payload: its.folder.chmod(0o500),
    "code unreadable": lambda its, other, payload: its.code.chmod(0),
    "open to all": lambda its, other, payload: (plant(its, payload), its.folder.chmod(0o777)),
}
if ROOT:
    DAMAGES |= {
        "folder of a stranger": lambda its, other, payload: (
            plant(its, payload), os.chown(its.folder, STRANGER, STRANGER)
        ),
        "file of a stranger": lambda its, other, payload: (
            plant(its, payload), os.chown(its.index, STRANGER, STRANGER)
        ),
    }  # fmt: skip


def test_every_damage_is_repaired(tmp_path):
    """k0 stays whole; each of the others is damaged in its own way."""
    package, trace = Package(tmp_path, 1 + len(DAMAGES)), tmp_path / "trace"
    assert package.ask().stderr.count("\n") == 1  # kernels are being compiled
    whole, *others = map(package.kept, package.names)
    before = whole.code.stat().st_mtime_ns
    for damage, its in zip(DAMAGES.values(), others, strict=True):
        damage(its, whole, pickle.dumps(Payload(trace)))
    package.ask(preexec_fn=without_override)
    assert not trace.exists(), "code that we did not write was run"
    assert whole.code.stat().st_mtime_ns == before
    for what, its in zip(DAMAGES, others, strict=True):
        if what != "folder of a stranger":  # that one's kernel is kept in the temporary folder
            assert its.code.stat().st_size > 1000, what
            assert not its.code.is_symlink()
    said = package.ask(preexec_fn=without_override).stderr
    assert "compiling" not in said, "the repaired cache is not used"
    assert said.count("KernelCacheWarning:") == ("folder of a stranger" in DAMAGES)


@pytest.mark.parametrize(
    "unsafe", ["mode", pytest.param("owner", marks=pytest.mark.skipif(not ROOT, reason="root"))]
)
def test_nothing_is_loaded_from_a_folder_that_others_can_write(tmp_path, unsafe):
    """Home cannot be written: the temporary folder of our name may be someone else's."""
    package, trace = Package(tmp_path, 1), tmp_path / "trace"
    package.temporary.chmod(0o1777)
    env = {"LATENTMDP_CACHE_DIR": "", "XDG_CACHE_HOME": "/dev/null"}
    package.ask(env=env)
    (base,) = package.temporary.glob("latentmdp-*")
    plant(package.kept("k0", base), pickle.dumps(Payload(trace)))
    if unsafe == "mode":
        base.chmod(0o777)
    else:
        os.chown(base, STRANGER, STRANGER)
    done = package.ask(env=env)
    assert not trace.exists(), "code of another user was run"
    assert "compiled kernels cannot be kept" in done.stderr
    assert str(base) in done.stderr


def test_a_temporary_folder_of_ours_is_private_and_used_again(tmp_path):
    package = Package(tmp_path, 1)
    env = {"LATENTMDP_CACHE_DIR": "", "XDG_CACHE_HOME": "/dev/null"}
    assert "compiling kernels" in package.ask(env=env).stderr
    (base,) = package.temporary.iterdir()
    assert base.stat().st_mode & 0o777 == 0o700
    assert package.ask(env=env).stderr == ""


def test_a_folder_that_was_asked_for_and_is_open_to_others_is_refused_with_the_remedy(tmp_path):
    package = Package(tmp_path, 1)
    package.cache.mkdir()
    package.cache.chmod(0o775)
    said = package.ask().stderr
    assert f"{package.cache} must be writable by you alone (chmod go-w)" in said
    assert not list(package.cache.iterdir())
    package.cache.chmod(0o755)
    assert package.ask().stderr.startswith("latentmdp: compiling kernels")
    assert package.ask().stderr == ""


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # machine code is larger


def test_a_full_disk_costs_a_warning_with_the_path(tmp_path):
    package = Package(tmp_path, 2)
    done = package.ask(preexec_fn=limit_files)
    assert done.stderr.count("KernelCacheWarning:") == 1
    assert f"compiled kernels cannot be kept in {package.cache}: " in done.stderr
    assert not list(package.cache.rglob("*.nb?*"))
    assert "KernelCacheWarning" not in package.ask().stderr  # there is room again
    assert package.ask().stderr == ""


def test_a_full_disk_leaves_what_is_compiled_in_use(tmp_path):
    package = Package(tmp_path, 2)
    package.run("from latentmdp.kernels.k0 import answer\nanswer(100)")
    done = package.ask(preexec_fn=limit_files)
    assert done.stderr.count("KernelCacheWarning:") == 1
    assert "latentmdp: compiling kernels: at most 1\n" in done.stderr


@pytest.mark.skipif(not ROOT, reason="only root can mount a small disk")
def test_a_small_disk_that_is_full(tmp_path):
    package = Package(tmp_path, 2)
    package.cache.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k,mode=700", "tmpfs", str(package.cache)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this machine lets nobody mount a disk")
    try:
        done = package.ask()
        assert "No space left on device" in done.stderr
        assert str(package.cache) in done.stderr
    finally:
        subprocess.run(["umount", str(package.cache)], check=True)


def test_threads_that_load_kernels_at_once_keep_them_in_the_cache(tmp_path):
    package = Package(tmp_path, 12)
    code = f"""
import sys, threading
from importlib import import_module
from pathlib import Path
sys.setswitchinterval(1e-6)
names = {package.names!r}
start, modules, answers = threading.Barrier(len(names)), {{}}, {{}}
def use(name):
    start.wait()
    modules[name] = import_module("latentmdp.kernels." + name)
    answers[name] = modules[name].answer(100)
import latentmdp.runtime.kernel_cache
threads = [threading.Thread(target=use, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*(answers[name] for name in names))
for name in names:
    place = modules[name].answer.stats.cache_path
    assert Path({str(package.cache)!r}) in Path(place).parents, place
"""
    done = package.run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(100 + i) for i in range(12)]
    assert not list(package.root.rglob("*.nb?"))
    assert package.ask().stderr == ""  # all of them were kept, and sealed


def test_a_folder_is_checked_while_others_write_to_it(tmp_path):
    """Files that come and go in between are nothing to stumble over, and nothing gets lost."""
    folder = sealed_folder(tmp_path / "cache", "kernels")
    stop, written = threading.Event(), []

    def write():
        while not stop.is_set():
            sealing, name = Sealing(folder), f"inner/{len(written)}"
            (folder / "inner").mkdir(exist_ok=True)
            (folder / f"{name}.tmp").write_bytes(b"half")
            (folder / f"{name}.tmp").rename(folder / name)
            sealing.end()
            written.append(name)
            time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        checks = 0
        while checks < 100 or (len(written) <= 10 and writer.is_alive()):
            assert sealed_folder(tmp_path / "cache", "kernels") == folder
            checks += 1
    finally:
        stop.set()
        writer.join()
    assert len(written) > 10
    assert all((folder / name).read_bytes() == b"half" for name in written)


WRITE_SLOWLY = """
import sys, time
from numba.core.caching import IndexDataCacheFile as File
from latentmdp.kernels.k0 import answer

at, index_delay, code_delay = map(float, sys.argv[1:])
save_index, save_code = File._save_index, File._save_data
File._save_index = lambda *all: (time.sleep(index_delay), save_index(*all))
File._save_data = lambda *all: (time.sleep(code_delay), save_code(*all))
time.sleep(max(0.0, at - time.time()))
print(answer({value}))
"""


def test_processes_that_write_at_once_do_not_mix_up_their_code(tmp_path):
    """Both see an empty index; without a lock, the last index would name the other's code."""
    package = Package(tmp_path, 1)
    at = str(time.time() + 4.0)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(package.run, WRITE_SLOWLY.format(value=1), arguments=(at, "1", "1.5"))
        second = pool.submit(
            package.run, WRITE_SLOWLY.format(value=1.5), arguments=(at, "1.5", "0")
        )
    assert first.result().stdout == "1\n", first.result().stderr
    assert second.result().stdout == "1.5\n", second.result().stderr
    done = package.run("from latentmdp.kernels.k0 import answer\nprint(answer(1), answer(1.5))")
    assert (done.stdout, done.stderr) == ("1 1.5\n", "")


def run_with_cache(cache: Path, *arguments: str, **how) -> subprocess.CompletedProcess:
    """A command or a script with a cache folder of its own."""
    env = os.environ | {"LATENTMDP_CACHE_DIR": str(cache), "LATENTMDP_QUIET": ""}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=env, timeout=300, **how
    )


def test_a_command_answers_with_a_damaged_cache_and_with_a_full_disk(tmp_path):
    model = lm.make("maze:size=3,goals=2,horizon=6")
    lm.save(model, tmp_path / "model.npz")
    lm.plan(model, "markov", gap=1.0).policy.save(tmp_path / "policy.json")
    files = str(tmp_path / "model.npz"), str(tmp_path / "policy.json")
    cache = tmp_path / "cache"
    command = cache, "-m", "latentmdp", "evaluate", *files, "--json"
    full = run_with_cache(*command, preexec_fn=limit_files)
    said = full.stderr.splitlines()
    assert said[0].startswith(f"latentmdp: compiled kernels cannot be kept in {cache}: ")
    (count,) = re.fullmatch(r"latentmdp: compiling kernels: at most (\d+)", *said[1:]).groups()
    first = run_with_cache(*command)
    line = f"latentmdp: compiling kernels, once: at most {count} (they are kept in {cache})\n"
    assert (first.stdout, first.stderr) == (full.stdout, line)
    for damage in (flip, folder_instead):
        for file in list(cache.rglob("*.nb?")):
            damage(file)
        again = run_with_cache(*command)
        assert (again.returncode, again.stdout) == (0, first.stdout)
        assert again.stderr == line
    assert run_with_cache(*command).stderr == ""
