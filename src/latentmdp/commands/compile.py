"""`latentmdp compile`: compile all kernels now, so that no later command has to."""

import time

from latentmdp.commands import options as option
from latentmdp.commands.compile_ahead import compile_all
from latentmdp.commands.output import print_json, print_text
from latentmdp.errors import ModelError

ALL = "all"  # name of a note: the number of kernels that have machine code at the end


def compile_command(json: option.AsJson = False) -> None:
    """Compile all kernels now, in two processes.

    Otherwise each kernel is compiled at its first use, which takes seconds. Machine code is kept.
    """
    from latentmdp.runtime.compile import load_all, notes, read_note, write_note
    from latentmdp.runtime.kernel_cache import with_code

    started, folder = time.perf_counter(), notes()
    if folder is None:
        raise ModelError(
            "compiling ahead needs a folder for the machine code; there is none, or "
            "NUMBA_DISABLE_JIT is set"
        )
    load_all()
    before, noted = with_code(), read_note(ALL)
    if noted is None or not noted.isdecimal() or before < int(noted):
        compile_all()
        write_note(ALL, str(with_code()))
    kernels, seconds, place = with_code(), time.perf_counter() - started, folder.parent
    if json:
        facts = {"kernels": kernels, "compiled": kernels - before, "seconds": seconds}
        print_json(facts | {"folder": place})
    elif kernels > before:
        print_text(f"compiled {kernels - before} kernels in {seconds:.0f} s, kept in {place}")
    else:
        print_text(f"all {kernels} kernels are compiled, kept in {place}")
