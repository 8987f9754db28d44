"""One file per command; each is registered by one line in `latentmdp.cli`.

These modules import nothing heavy at the top: `latentmdp --help` loads all of them.
"""
