"""Items, their content digests, and the buckets that keep training and evaluation apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

BUCKETS = ("train", "explore", "select", "confirm")
_TENTHS = ("train",) * 7 + ("explore", "select", "confirm")


class ItemError(ValueError):
    """An item source was asked for something that it cannot give."""


@dataclass(frozen=True, slots=True)
class Item:
    """One prompt with its reference answer.

    `answer` starts with the blank that follows the prompt; `template` is the stratum and `family`
    the item source.
    """

    id: str
    prompt: str
    answer: str
    template: str
    family: str

    @property
    def digest(self) -> str:
        """SHA-256 of prompt and answer, separated by one zero byte, in hexadecimal."""
        return content_digest(self.prompt, self.answer)

    @property
    def bucket(self) -> str:
        """The bucket that this item's content belongs to, for ever."""
        return bucket(self.digest)


def content_digest(prompt: str, answer: str) -> str:
    """SHA-256 of the content that an item is made of, in hexadecimal."""
    return hashlib.sha256(f"{prompt}\0{answer}".encode()).hexdigest()


def bucket(digest: str) -> str:
    """The bucket of a content digest: seven tenths train, one tenth each of the others."""
    return _TENTHS[int(digest[:8], 16) * len(_TENTHS) >> 32]


def make_item(family: str, template: str, prompt: str, answer: str) -> Item:
    """An item whose id is its family and the start of its content digest."""
    digest = content_digest(prompt, answer)
    return Item(f"{family}-{digest[:16]}", prompt, answer, template, family)


def only(bucket_name: str, items: Iterator[Item]) -> Iterator[Item]:
    """The items whose content lies in one bucket; all others are dropped by digest."""
    if bucket_name not in BUCKETS:
        raise ItemError(f"bucket: found '{bucket_name}', expected one of {', '.join(BUCKETS)}")
    return (item for item in items if item.bucket == bucket_name)


def unique(items: Iterator[Item], count: int, *, patience: int = 20_000) -> tuple[Item, ...]:
    """The first `count` different items.

    Raises ItemError when `patience` items in a row bring nothing new.
    """
    found: dict[str, Item] = {}
    misses = 0
    while len(found) < count:
        item = next(items)
        if item.digest in found:
            misses += 1
        else:
            misses = 0
            found[item.digest] = item
        if misses > patience:
            raise ItemError(
                f"items: found only {len(found)} different ones, expected {count}; "
                "allow more steps or larger numbers"
            )
    return tuple(found.values())
