"""Kernels of planning in known models."""
