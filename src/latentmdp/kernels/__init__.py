"""Compiled kernels: the only importers of Numba; arrays in, arrays out."""
