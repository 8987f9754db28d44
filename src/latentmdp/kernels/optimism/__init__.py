"""Kernels of optimistic and pessimistic planning from counts."""
