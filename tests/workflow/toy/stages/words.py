"""Text helpers that stages reach."""


def split(text: str, lower: bool) -> list[str]:
    """Return the words of a text."""
    return (text.lower() if lower else text).split()


def unused(text: str) -> str:
    """Return what nobody asks for."""
    return text[::-1]
