"""The one family of errors for bad input, and the warning about what costs time alone."""

from latentmdp.printing import printable


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: answers are the same, later starts take longer."""
