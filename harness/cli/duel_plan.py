"""A duel as a plan that can be frozen: the same arms, a bar that its author has to set."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from harness.store.canonical import Json
from harness.store.errors import UsageError

if TYPE_CHECKING:
    from harness.cli.duel import Duel

_BLOCKS = 24
_TEMPLATE = """\
# Written by `harness ab`. Set the bar (region) and what you believe (confidence), then
# `harness freeze conf={name}` and `harness run conf={name}`.
study: {name}
stage: confirm
question: {name}_speedup
title: {second} against {first}
model: {model}
task: {task}
partitions: {partitions}
arms:
{arms}
schedule:
  design: abba_baab
  pair: [{first}, {second}]
  block_items: {items}
  blocks: {blocks}
  spare_blocks: 2
  aa_blocks: 8
  launches_per_arm: 3
  warmup_visits: 1
  threads: {threads}
measurements: [generation]
limits: {{}}
predictions:
  - id: P1
    claim: {second} decodes at least 1.1 times as fast as {first}
    estimand: {{kind: log_ratio, of: decode_cpu_seconds, arms: [{first}, {second}], cluster: block}}
    region: [1.1, null]
    family: primary
    confidence: 0.5
    min_clusters: {clusters}
"""


def confirm_plan(name: str, duel: Duel, commands: tuple[list[str], list[str]] | None) -> str:
    """Return the YAML of a confirm plan.

    Raises:
        UsageError: the name is none of a plan.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,48}", name):
        raise UsageError(f"--write {name}: expected a plan's name: a-z, 0-9 and _")
    values = duel.plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    arms: dict[str, Json] = values["arms"]
    for arm, words in zip(duel.pair, commands or (), strict=False):
        arms[arm]["options"]["command"] = words
    if commands is not None:
        arms[duel.pair[1]]["role"] = "patched"
    items = duel.plan.schedule.block_items
    source = {k: values["partitions"][k] for k in ("source", "seed", "options")}
    partitions = {**source, "confirm": _BLOCKS * items, "explore": 8 * items}
    first, second = duel.pair
    return _TEMPLATE.format(
        name=name,
        first=first,
        second=second,
        model=json.dumps(values["model"]),
        task=json.dumps(values["task"]),
        partitions=json.dumps(partitions),
        arms="\n".join(f"  {arm}: {json.dumps(arms[arm])}" for arm in duel.pair),
        items=items,
        blocks=_BLOCKS,
        threads=duel.plan.schedule.threads,
        clusters=_BLOCKS - 6,
    )
