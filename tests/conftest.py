"""Shared settings of the test suite."""

import os
import signal

from hypothesis import settings

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=10)
settings.load_profile("ci" if os.environ.get("CI") else "default")  # CI repeats; people explore

# A shell's background jobs ignore Ctrl-C, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What is on standard error is looked at; whether kernels are compiled depends on earlier runs.
os.environ["LATENTMDP_QUIET"] = "1"
