"""GSM8K: the published test split (Cobbe et al., arXiv 2110.14168; MIT), as items of one line.

The calculator marks of the worked answers are dropped and their lines joined, so that an answer
ends at the line's end like those of the arithmetic source. `shots` puts that many worked examples
of the train bucket before every question, always the same ones.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

from harness.tasks.items import Item, ItemError, make_item, only
from harness.tasks.streams import Stream

FAMILY = "gsm8k"
MAX_SHOTS = 8

_FILE = Path(__file__).parent / "data" / "gsm8k_test.jsonl"
_MARK = re.compile(r"<<[^>]*>>")
_BLANKS = re.compile(r"\s+")


def draw(bucket: str, seed: str | int, count: int, shots: int = 0) -> tuple[Item, ...]:
    """`count` different problems of one bucket, the same ones for the same arguments.

    Raises ItemError for an unknown bucket, a bad number of shots, or more items than there are.
    """
    if isinstance(shots, bool) or not isinstance(shots, int) or not 0 <= shots <= MAX_SHOTS:
        raise ItemError(f"options.shots: found {shots}, expected 0..{MAX_SHOTS}")
    found = _shuffled(tuple(only(bucket, iter(_read()))), f"{seed}/{bucket}")
    if count > len(found):
        raise ItemError(f"count: found {count}, expected at most {len(found)} in bucket {bucket}")
    examples = _shuffled(tuple(only("train", iter(_read()))), "gsm8k shots")[:shots]
    head = "".join(f"{item.prompt}{item.answer}\n\n" for item in examples)
    return tuple(
        make_item(FAMILY, f"{shots} shots", head + item.prompt, item.answer) if shots else item
        for item in found[:count]
    )


@functools.cache
def _read() -> tuple[Item, ...]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return tuple(_item(json.loads(line)) for line in lines if line)


def _item(row: dict[str, str]) -> Item:
    worked, _, result = _MARK.sub("", row["answer"]).rpartition("####")
    text = _BLANKS.sub(" ", worked).strip()
    prompt = f"Question: {_BLANKS.sub(' ', row['question']).strip()}\nAnswer:"
    return make_item(FAMILY, "0 shots", prompt, f" {text} #### {result.strip()}")


def _shuffled(items: tuple[Item, ...], key: str) -> tuple[Item, ...]:
    """The items in an order that the key decides (Fisher-Yates)."""
    stream, order = Stream(key), list(items)
    for last in range(len(order) - 1, 0, -1):
        other = stream.between(0, last)
        order[last], order[other] = order[other], order[last]
    return tuple(order)
