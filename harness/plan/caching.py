"""Which options a cache policy and a decoder take."""

from __future__ import annotations

from collections.abc import Iterator

from harness.plan.schema import CacheSpec, DecodeSpec

OPTIONS: dict[str, tuple[str, ...]] = {
    "full": (),
    "deepest": (),
    "ripe": ("window",),
    "first_loops": ("planes",),
    "last_planes": ("planes",),
    "every_mth": ("every",),
    "sinks_ripe": ("sinks", "window"),
    "second_plane": ("plane", "window"),
    "per_head": ("windows",),
    "compress": ("slots",),
}
"""The options of each policy; it needs them all, and takes no others."""

_WAVED = ("full", "deepest")


def cache_problems(cache: CacheSpec) -> Iterator[str]:
    """Yield what a policy lacks, and what it does not take."""
    wanted = OPTIONS[cache.policy]
    for name in sorted({option for options in OPTIONS.values() for option in options}):
        found = getattr(cache, name)
        if found is not None and name not in wanted:
            takers = [policy for policy, options in OPTIONS.items() if name in options]
            yield (
                f"cache.{name}: found {found} with policy {cache.policy}; only "
                f"{', '.join(takers)} takes it"
            )
        if found is None and name in wanted:
            yield f"cache.{name}: missing; policy {cache.policy} needs it"


def decode_problems(decode: DecodeSpec, cache: CacheSpec | None) -> Iterator[str]:
    """Yield what a decoder lacks, what it does not take, and what it can't be combined with."""
    drafts = (decode.draft_loops, decode.draft_tokens)
    if decode.kind == "speculative" and None in drafts:
        yield "decode: speculative needs draft_loops and draft_tokens"
    if decode.kind != "speculative" and (drafts != (None, None) or decode.reuse):
        yield f"decode: {decode.kind} takes no draft_loops, draft_tokens or reuse"
    if decode.reuse and decode.draft_reads != "policy":
        yield "decode.reuse: needs draft_reads policy; verification would read other planes"
    if (decode.kind == "wavefront") != (decode.wave is not None):
        yield f"decode.wave: found {decode.wave} with kind {decode.kind}; wavefront needs it"
    if decode.kind == "wavefront" and (cache is None or cache.policy not in _WAVED):
        yield f"cache.policy: wavefront takes {' or '.join(_WAVED)}"
    if decode.temperature is None and (decode.top_p, decode.seed) != (None, None):
        yield "decode: top_p and seed need a temperature"
    if decode.temperature is not None and decode.kind == "wavefront":
        yield "decode.temperature: wavefront draws nothing; it takes the most likely token"
