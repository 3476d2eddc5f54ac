"""GSM8K as items, and a published checkpoint's own tokenizer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from harness.backends.looped import stop_ids
from harness.tasks import gsm8k
from harness.tasks.answers import extract
from harness.tasks.items import BUCKETS, ItemError
from harness.tasks.published_tokenizer import PublishedTokenizer
from harness.tasks.sources import draw
from harness.tasks.tokenizer import TokenizerError, load_tokenizer


def test_the_split_is_whole_and_every_answer_scores() -> None:
    sizes = Counter(item.bucket for item in gsm8k._read())
    drawn = {name: gsm8k.draw(name, "s", sizes[name]) for name in BUCKETS}
    assert {item.id for items in drawn.values() for item in items} == {
        item.id for item in gsm8k._read()
    }
    assert len(gsm8k._read()) == 1319
    assert all(extract(item.answer) is not None for item in gsm8k._read())
    assert all("\n" not in item.answer and "<<" not in item.answer for item in gsm8k._read())
    first = gsm8k._read()[0]
    assert first.prompt.startswith("Question: Janet’s ducks lay 16 eggs per day.")
    assert first.answer.endswith("#### 18")


def test_buckets_do_not_meet_and_draws_repeat() -> None:
    drawn = {name: gsm8k.draw(name, "s", 100) for name in BUCKETS}
    ids = [item.id for items in drawn.values() for item in items]
    assert len(set(ids)) == len(ids)
    assert drawn["confirm"] == draw("gsm8k", "confirm", "s", 100, {})
    assert drawn["confirm"] != gsm8k.draw("confirm", "t", 100)


def test_shots_come_from_the_train_bucket_and_stand_before_the_question() -> None:
    (plain,), (shown,) = gsm8k.draw("confirm", "s", 1), gsm8k.draw("confirm", "s", 1, shots=3)
    parts = shown.prompt.split("\n\n")
    assert parts[-1] == plain.prompt and shown.answer == plain.answer
    assert len(parts) == 4
    examples = [part.partition("\nAnswer:")[0] + "\nAnswer:" for part in parts[:-1]]
    everything = {item.prompt for item in gsm8k._read() if item.bucket == "train"}
    assert set(examples) <= everything


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"shots": 9}, "expected 0..8"),
        ({"shots": True}, "expected 0..8"),
        ({"x": 1}, "x is unknown"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, int], said: str) -> None:
    with pytest.raises(ItemError, match=said):
        draw("gsm8k", "confirm", "s", 1, options)


def test_more_items_than_there_are_is_refused() -> None:
    with pytest.raises(ItemError, match="expected at most"):
        gsm8k.draw("confirm", "s", 1000)


def published(folder: Path, *, appends_end: bool = False) -> Path:
    """Write a byte-level tokenizer with Huginn's marks, as a checkpoint's folder holds one."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(["<|begin_text|>", "<|end_text|>", "<|end_turn|>", "<other>"])
    first, last = made.token_to_id("<|begin_text|>"), made.token_to_id("<|end_text|>")
    made.post_processor = processors.TemplateProcessing(
        single="<|begin_text|> $A" + (" <|end_text|>" if appends_end else ""),
        special_tokens=[("<|begin_text|>", first), ("<|end_text|>", last)],
    )
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.mark.parametrize("appends_end", [False, True])
def test_a_prompt_begins_once_and_never_ends(tmp_path: Path, appends_end: bool) -> None:
    tokenizer = load_tokenizer(published(tmp_path, appends_end=appends_end))
    assert isinstance(tokenizer, PublishedTokenizer)
    ids = tokenizer.encode("2 plus 3 é\n")
    assert len(ids) == 1 + len("2 plus 3 é\n".encode())
    assert ids[0] == tokenizer._own.token_to_id("<|begin_text|>")
    assert tokenizer.decode(ids) == "2 plus 3 é\n"


def test_everything_that_ends_an_answer_is_found(tmp_path: Path) -> None:
    path = published(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [3, 4]}))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": {"content": "<other>"}})
    )
    tokenizer = load_tokenizer(path)
    assert set(tokenizer.ends) == {3, 4, 256, 257, 258, 259}
    stops = stop_ids(tokenizer, "\n")
    line_break = tokenizer.encode("\n")[-1]
    assert set(stops) == {*tokenizer.ends, line_break}


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE"}}))
    with pytest.raises(TokenizerError, match=r"tokenizer\.json: not a tokenizer that can be read"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_embedded_models_do_not_need_the_library() -> None:
    program = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from harness.looped.weights import find\n"
        "from harness.tasks.tokenizer import load_tokenizer\n"
        "print(load_tokenizer(find('tiny_ripe') / 'tokenizer.json').ends)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "(256,)"
