"""The one family of errors for bad input."""

from latentmdp.printing import printable


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))
