"""The one family of errors for bad input."""


class ModelError(ValueError):
    """Bad input: says what must hold, what was found, and where first."""
