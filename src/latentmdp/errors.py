"""The one family of errors for bad input, and the warnings about what is not an error."""

from latentmdp.printing import printable


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: answers are the same, later starts take longer."""


class RepairWarning(UserWarning):
    """Distributions did not sum to 1 and were divided by their sum, as the caller asked."""


class OffPolicyWarning(UserWarning):
    """A log says little or nothing about the policy that it was asked about."""
