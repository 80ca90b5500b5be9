"""What an unquoted YAML scalar means: the core schema of YAML 1.2.

Source: YAML 1.2.2, section 10.3.2 "Tag Resolution". One deliberate difference: a decimal number with leading zeros is
refused, as YAML 1.1 reads it as octal and YAML 1.2 as decimal.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from npusim.config.document import Scalar

DIGIT_LIMIT = 100

_RULES: tuple[tuple[re.Pattern[str], Callable[[str], Scalar]], ...] = (
    (re.compile(r"null|Null|NULL|~|"), lambda text: None),
    (re.compile(r"true|True|TRUE|false|False|FALSE"), lambda text: text[0] in "tT"),
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 8)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 16)),
    (re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"), lambda text: float(text.replace(".", ""))),
)
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")
_OCTAL = re.compile(r"0+[1-7][0-7]*")


def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar. Raises ValueError for a number with leading zeros or over 100 characters."""
    convert = next((convert for pattern, convert in _RULES if pattern.fullmatch(text)), None)
    if convert is None:
        return text
    if len(text) > DIGIT_LIMIT:
        raise ValueError(f"a number of {len(text)} characters; at most {DIGIT_LIMIT} are read")
    if _LEADING_ZERO.fullmatch(text):
        octal = f"0o{text.lstrip('0')} (octal, as in YAML 1.1) or " if _OCTAL.fullmatch(text) else ""
        raise ValueError(f"{text} has a leading zero; write {int(text)} (decimal), {octal}'{text}' (a string)")
    return convert(text)
