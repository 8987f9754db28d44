"""The one family of errors for bad input, and the warnings about what is not an error."""

import warnings
from numbers import Real


def printable(text: str) -> str:
    r"""The text with control characters escaped, so that no file can control the terminal.

    >>> printable("red\x1b[2J")
    'red\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


LONGEST_QUOTE = 60


def quoted(value: object) -> str:
    """A value from a file as a short piece of a message."""
    text = repr(value[: 2 * LONGEST_QUOTE] if isinstance(value, (str, bytes)) else value)
    return text if len(text) <= LONGEST_QUOTE else f"{text[:LONGEST_QUOTE]}..."


def check_share(name: str, value: float) -> None:
    """Refuse what does not lie strictly between 0 and 1: probabilities of error, levels."""
    if not (isinstance(value, Real) and 0.0 < value < 1.0):
        raise ModelError(f"{name} must lie strictly between 0 and 1; it is {value!r}")


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept: answers are the same, later starts take longer."""


class RepairWarning(UserWarning):
    """Distributions did not sum to 1 and were divided by their sum, as the caller asked."""


class OffPolicyWarning(UserWarning):
    """A log says little or nothing about the policy that it was asked about."""


class MixtureWarning(UserWarning):
    """A log without contexts does not show as many kinds of episodes as were asked for."""


class TransferWarning(UserWarning):
    """A policy does not say all that it needs in a model with other names: that was filled in."""


class ActionMaskWarning(UserWarning):
    """An environment masks actions that a learner may play: nobody said which are available."""


class DamagedStudyWarning(UserWarning):
    """Rows of a study's database are not as they were written, and are left out."""


def warn_renamed(old: str, new: str) -> None:
    """Say that a public name has changed; the old one still works."""
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
