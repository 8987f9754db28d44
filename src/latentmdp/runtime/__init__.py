"""What the package needs of the machine: files, processes, Ctrl-C, compiled kernels."""
