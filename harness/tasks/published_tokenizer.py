"""A published checkpoint's own tokenizer.json, with the face of the embedded models' tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tokenizers

_ENDS = (
    "<|begin_text|>", "<|end_text|>", "<|end_turn|>",  # Huginn stops at all three
    "<|end_of_text|>", "<|eot_id|>", "<|endoftext|>", "<|im_end|>", "</s>",
)  # fmt: skip
"""Special tokens that end an answer wherever a vocabulary has them."""


class PublishedTokenizer:
    """Text to ids and back; beside the vocabulary, what ends an answer is read from its folder."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._own: tokenizers.Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.ends = self._find_ends(folder)
        """Ids that end an answer."""

    @property
    def size(self) -> int:
        """Number of ids in use; a model may have more rows than that."""
        return int(self._own.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        """Token ids of a text with the marks that the tokenizer puts before it, but never an end.

        Some published revisions append an end mark, after which a model starts something new.
        """
        ids = list(self._own.encode(text).ids)
        while len(ids) > 1 and ids[-1] in self.ends:
            ids.pop()
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; special tokens are silent."""
        return str(self._own.decode(list(ids), skip_special_tokens=True))

    def _find_ends(self, folder: Path) -> tuple[int, ...]:
        names = [*_ENDS, _name(_json(folder / "tokenizer_config.json").get("eos_token"))]
        found = {self._own.token_to_id(name) for name in names if name}
        for file in ("generation_config.json", "config.json"):
            value = _json(folder / file).get("eos_token_id")
            found |= set(value if isinstance(value, list) else [value])
        return tuple(sorted(one for one in found if isinstance(one, int)))


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _name(token: object) -> str | None:
    """A token's text: older configurations hold an object that describes it."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
