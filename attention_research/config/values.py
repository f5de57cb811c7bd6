"""Values of settings: their JSON form, and their text on the command line."""

from __future__ import annotations

import ast
import re
import warnings
from decimal import Decimal
from typing import Any

#: Floats represent all integers up to this value exactly. A larger integer in the form 1e20 is rejected.
EXACT = 2**53
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,3})?", re.IGNORECASE)


def plain(value: Any) -> Any:
    """Converts a value of a config file to JSON form: dicts, lists and Python scalars. Other values are unchanged, and
    are rejected later."""
    if hasattr(value, "items"):  # a dict or a ConfigDict
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if type(value).__module__ == "numpy" and hasattr(value, "item") and value.ndim == 0:
        return value.item()
    return value


def spell(value: Any) -> str:
    """The text of a value on the command line, which parses back to the value."""
    if isinstance(value, str):
        return value
    return str(value).lower() if value is None or isinstance(value, bool) else repr(value)


def literal(text: str) -> Any:
    """The value of a Python literal, or None if the text is not a literal."""
    try:
        with warnings.catch_warnings(action="ignore"):  # Python warns about the syntax of texts such as 1or2
            return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def whole(text: str) -> Any:
    """The int of a text such as 1000, 1_000, 1e3 or 1000.0, or the text itself if it is not an integer.

    >>> whole("1e5"), whole("2.50e1"), whole("1.5")
    (100000, 25, '1.5')
    """
    if len(text) < 1000 and re.fullmatch(r"[+-]?[0-9]+(_[0-9]+)*", text):
        return int(text)
    if not _DECIMAL.fullmatch(text):
        return text
    number = Decimal(text)
    is_whole = abs(number) <= EXACT and number == number.to_integral_value()
    return int(number) if is_whole else text


def fraction(text: str) -> Any:
    """The float of a text, or the text itself if it is not a number."""
    try:
        return float(text)
    except ValueError:
        return text


def truth(text: str) -> Any:
    """The bool of "true" or "false", or the text itself if it is another word."""
    return {"true": True, "false": False}.get(text.lower(), text)
