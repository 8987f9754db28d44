"""Kernels that simulate episodes, step by step or as counts of whole blocks."""
