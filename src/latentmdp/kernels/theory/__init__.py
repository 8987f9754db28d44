"""Kernels of the audit and of the variance."""
