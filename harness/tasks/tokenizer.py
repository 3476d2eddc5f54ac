"""A small reversible tokenizer: 256 bytes, one end mark, and whole words.

A word is a run of letters (or of `#`) with the blank or line break before it; digits are always
single tokens. Whatever is not in the word list is spelled in UTF-8 bytes, so any text goes in and
comes back out unchanged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.tasks.published_tokenizer import PublishedTokenizer

END = 256
_FIRST_WORD = 257
_FORMAT = "bytes-and-words-1"
_PIECE = re.compile(r"[ \n]?(?:[A-Za-z]+|#+)")


class TokenizerError(ValueError):
    """A tokenizer file or a token id is not valid."""


class Tokenizer:
    """Ids 0..255 are bytes, 256 ends a document, the words follow in file order."""

    def __init__(self, words: Sequence[str]) -> None:
        bad = [word for word in words if not _PIECE.fullmatch(word)]
        if bad or len(set(words)) != len(words):
            raise TokenizerError(f"words: found {bad or 'a word twice'}, expected different words")
        self.words = tuple(words)
        self._ids = {word: _FIRST_WORD + i for i, word in enumerate(self.words)}
        self._bytes = [bytes([i]) for i in range(256)] + [b""]
        self._bytes += [word.encode() for word in self.words]

    @property
    def ends(self) -> tuple[int, ...]:
        """Ids that end an answer."""
        return (END,)

    @property
    def size(self) -> int:
        """Number of ids in use; a model may have more rows than that."""
        return _FIRST_WORD + len(self.words)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text; never END. Raises UnicodeEncodeError for lone surrogates."""
        ids: list[int] = []
        place = 0
        for match in _PIECE.finditer(text):
            word = self._ids.get(match.group())
            if word is not None:
                ids.extend(text[place : match.start()].encode())
                ids.append(word)
                place = match.end()
        ids.extend(text[place:].encode())
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; END is silent, broken UTF-8 becomes U+FFFD."""
        parts = []
        for token in ids:
            if not 0 <= token < self.size:
                raise TokenizerError(f"token: found {token}, expected 0..{self.size - 1}")
            parts.append(self._bytes[token])
        return b"".join(parts).decode(errors="replace")

    def save(self, path: Path) -> None:
        """Write the word list as JSON, one canonical form."""
        content = {"format": _FORMAT, "words": list(self.words)}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def load_tokenizer(path: Path) -> Tokenizer | PublishedTokenizer:
    """The tokenizer kept in a file: an embedded model's, or a published checkpoint's.

    Raises TokenizerError when the file is neither; published ones need the package `tokenizers`.
    """
    content = _read(path)
    return _published(path) if isinstance(content.get("model"), dict) else _embedded(path, content)


def embedded_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of an embedded model. Raises TokenizerError when the file is not one."""
    return _embedded(path, _read(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TokenizerError(f"{path}: not a readable tokenizer file: {error}") from error
    return content if isinstance(content, dict) else {}


def _embedded(path: Path, content: dict[str, Any]) -> Tokenizer:
    found = content.get("format")
    if found != _FORMAT:
        raise TokenizerError(f"{path}: format: found {found!r}, expected '{_FORMAT}'")
    return Tokenizer(content["words"])


def _published(path: Path) -> PublishedTokenizer:
    try:
        from harness.tasks.published_tokenizer import PublishedTokenizer

        return PublishedTokenizer(path.parent)
    except ImportError as error:
        raise TokenizerError(f"{path}: needs the package tokenizers: {error}") from error
    except Exception as error:  # the library raises plain Exception for a broken file
        raise TokenizerError(f"{path}: not a tokenizer that can be read: {error}") from error


def learn_words(texts: Iterable[str], limit: int) -> tuple[str, ...]:
    """The `limit` most frequent words of the texts, most frequent first, ties by spelling."""
    counts = Counter(match.group() for text in texts for match in _PIECE.finditer(text))
    order = sorted(counts, key=lambda word: (-counts[word], word))
    return tuple(order[:limit])
