"""Text from files that is shown to people: names may hold anything, also terminal commands."""


def printable(text: str) -> str:
    r"""The text with control characters escaped, so that no file can control the terminal.

    >>> printable("red\x1b[2J")
    'red\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
