"""One file per command; each is registered by one line in `latentmdp.commands.cli`.

`latentmdp --help` loads all of these modules. So what loads slowly (NumPy, and with it nearly all
of our own package; Rich) is imported inside the functions.
"""
