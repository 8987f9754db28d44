"""The one family of errors for bad input, and the warning about what costs time alone."""


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: answers are the same, later starts take longer."""
