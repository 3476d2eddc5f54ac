"""Settings of the model package: cache layers, and what a config.json must hold."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.backends.sglang.models.settings import (
    CODA,
    CORE,
    PRELUDE,
    Settings,
    SettingsError,
    settings_from,
)
from harness.looped.published import PUBLISHED

RAVEN = PUBLISHED["raven_llama_1b"]


def test_full_planes_are_numbered_as_the_published_caches_are() -> None:
    settings = Settings(RAVEN, 3, "full")
    assert settings.cache_layers == 4 + 6 * 3 + 4
    assert settings.cache_ids(PRELUDE, 3) == [3]
    assert settings.cache_ids(CORE, 1) == [5, 11, 17]
    assert settings.cache_ids(CODA, 0) == [22]
    assert settings.core_ids == range(4, 22)


def test_shared_planes_are_one_for_each_core_layer() -> None:
    settings = Settings(RAVEN, 3, "shared")
    assert settings.cache_ids(CORE, 1) == [5, 5, 5]
    assert settings.cache_ids(CODA, 3) == [13]
    assert settings.core_ids == range(4, 10)


@pytest.mark.parametrize("planes", ["full", "shared"])
def test_every_plane_has_exactly_one_cache_layer(planes: str) -> None:
    settings = Settings(RAVEN, 5, planes)
    groups = {PRELUDE: RAVEN.prelude, CORE: RAVEN.core, CODA: RAVEN.coda}
    ids = [
        place
        for kind, count in groups.items()
        for index in range(count)
        for place in set(settings.cache_ids(kind, index))
    ]
    assert sorted(ids) == list(range(settings.cache_layers))


def test_settings_survive_json() -> None:
    settings = Settings(RAVEN, 8, "shared", "zero", 5)
    assert settings.config.rope_scaling is not None
    assert settings_from(json.loads(json.dumps(settings.to_json()))) == settings


@pytest.mark.parametrize("raw", [None, {}, {"config": {}}, {"config": {"layout": "huginn"}}])
def test_other_configs_are_refused(raw: object) -> None:
    with pytest.raises(SettingsError, match=r"config\.json"):
        settings_from(raw)


def test_layouts_without_blocks_are_refused() -> None:
    with pytest.raises(SettingsError, match="layout: found 'ouro'"):
        Settings(replace(RAVEN, layout="ouro"), 2, "full")
