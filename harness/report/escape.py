"""Text made harmless for Markdown, LaTeX and terminals (HTML is Jinja's own autoescape)."""

from __future__ import annotations

import re

from markupsafe import Markup

_TEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_\allowbreak{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": "'",
    "`": r"\textasciigrave{}",
    "\N{MINUS SIGN}": r"\ensuremath{-}",
    "×": r"\ensuremath{\times}",
    "±": r"\ensuremath{\pm}",
    "≥": r"\ensuremath{\geq}",
    "≤": r"\ensuremath{\leq}",
    "≈": r"\ensuremath{\approx}",
    "→": r"\ensuremath{\rightarrow}",
    "∞": r"\ensuremath{\infty}",
    "δ": r"\ensuremath{\delta}",
    "α": r"\ensuremath{\alpha}",
    "·": r"\textperiodcentered{}",
    "…": r"\ldots{}",
    "–": "--",
    "—": "---",
    "“": "``",
    "”": "''",
    "’": "'",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
    "\N{NO-BREAK SPACE}": "~",
    "⁻": r"\textsuperscript{\ensuremath{-}}",
}
_TEX |= {digit: rf"\textsuperscript{{{index}}}" for index, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def one_line(value: object) -> str:
    """Return text without control characters, line breaks or direction overrides."""
    return _CONTROL.sub(" ", str(value))


def tex(value: object) -> Markup:
    r"""Return text that LaTeX prints as it is.

    >>> str(tex("$5 & 10% of a_b"))
    '\\$5 \\& 10\\% of a\\_\\allowbreak{}b'
    """
    text = "".join(_TEX.get(character, character) for character in one_line(value))
    return value if isinstance(value, Markup) else Markup(text)  # noqa: S704 - the escape itself


def markdown(value: object) -> Markup:
    r"""Return text that Markdown prints as it is, also inside a table.

    >>> str(markdown("a|b <i>"))
    'a\\|b &lt;i&gt;'
    """
    if isinstance(value, Markup):
        return value
    text = one_line(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(_MARKDOWN.sub(r"\\\1", text))  # noqa: S704 - the escape itself


def command_name(*parts: str) -> str:
    """Return a LaTeX command name: letters only, words run together, digits spelled.

    >>> command_name("confirm_raven", "P1", "estimate")
    'ConfirmRavenPOneEstimate'
    """
    words = re.findall(r"[A-Za-z]+|[0-9]", " ".join(parts))
    return "".join(_DIGITS[int(w)] if w.isdigit() else w[0].upper() + w[1:] for w in words)
