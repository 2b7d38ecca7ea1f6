"""Templates with fields in braces, `{x}` or `{{ x }}`, made into Jinja templates over a row.

In the first style, Python's, doubled braces stand for single ones; in the second single braces
are text. A template is of the style of its fields, and never of both. Data is filled in by Jinja,
so that braces in a value are text.

style_of    which of the two a template is written in
as_jinja    the Jinja template, and the names of the fields
"""

from __future__ import annotations

import re
import string

SINGLE = "{x}"
DOUBLE = "{{ x }}"

_NAME = r"[^\W\d]\w*"
_SINGLE_FIELD = re.compile(rf"(?<!{{){{{_NAME}}}(?!}})")
_DOUBLE_FIELD = re.compile(rf"(?<!{{){{{{\s*{_NAME}\s*}}}}(?!}})")
_DOUBLE_LIKE = re.compile(rf"(?<!{{){{{{\s*{_NAME}[^{{}}]*}}}}")
_PLACE = re.compile(rf"{{{{\s*({_NAME})\s*}}}}")


class BracesError(ValueError):
    """A template whose braces cannot be read."""


def style_of(template: str) -> str:
    """SINGLE or DOUBLE.

    Raises:
        BracesError: It has fields of both kinds.
    """
    single, double = _SINGLE_FIELD.search(template), _DOUBLE_FIELD.search(template)
    if single and double:
        message = (
            f"{single[0]} and {double[0]} are fields of two kinds, so what either means cannot be "
            "told: write all fields as {x} (and {{ }} for braces that are text), or all as "
            "{{ x }} (single braces are text then)."
        )
        raise BracesError(message)
    return DOUBLE if double or (not single and _DOUBLE_LIKE.search(template)) else SINGLE


def as_jinja(template: str, style: str) -> tuple[str, list[str]]:
    """The same template in Jinja's words, with fields of `item`, and their names in order.

    Args:
        template: Text with fields in braces.
        style: SINGLE or DOUBLE.

    Raises:
        BracesError: A field is no plain name, or a brace stands alone.
    """
    parts = _single(template) if style == SINGLE else _double(template)
    text = "".join(_escaped(said) + ("" if name is None else _field(name)) for said, name in parts)
    return text, list(dict.fromkeys(name for _, name in parts if name is not None))


def _single(template: str) -> list[tuple[str, str | None]]:
    """Text and the field behind it, None at the end."""
    found: list[tuple[str, str | None]] = []
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as exc:
        message = f"the braces cannot be read ({exc}): a brace that is text is written twice."
        raise BracesError(message) from None
    for text, name, spec, conversion in parsed:
        if name is not None and (spec or conversion or not name.isidentifier()):
            shown = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
            message = (
                f"the field {{{shown}}} is no plain name: fields are {{name}}, without positions, "
                "attributes, conversions and formats; braces that are text are written twice."
            )
            raise BracesError(message)
        found.append((text, name))
    return found


def _double(template: str) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    done = 0
    for field in _PLACE.finditer(template):
        found.append((template[done : field.start()], field[1]))
        done = field.end()
    found.append((template[done:], None))
    for text, _ in found:
        place = text.find("{{")
        if place >= 0:
            message = (
                f"{text[place : place + 40]!r} is no field: fields are {{{{ name }}}}, without "
                "attributes, filters and anything else; single braces are text."
            )
            raise BracesError(message)
    return found


def _escaped(text: str) -> str:
    """Text in which Jinja sees no beginning of anything, and no line break to make its own."""
    return text.replace("{", "{{ '{' }}").replace("\r", "{{ '\\r' }}")


def _field(name: str) -> str:
    return f"{{{{ item['{name}'] }}}}"
