"""Composition: strict types, one line per mistake, the same digest everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan.compose import compose, plan_names
from harness.plan.digest import plan_digest, plan_from_json, plan_json
from harness.store.errors import ChangedError, UsageError
from harness.store.paths import Project, find_project

BASE = (find_project().conf / "demo_fake.yaml").read_text(encoding="utf-8")


def project(tmp_path: Path, text: str, name: str = "p") -> Project:
    (tmp_path / "conf").mkdir(exist_ok=True, parents=True)
    (tmp_path / "conf" / f"{name}.yaml").write_text(text, encoding="utf-8")
    return Project(tmp_path)


def error(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        compose(project(tmp_path, text), "p")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_shipped_plan_composes_and_survives_its_own_json() -> None:
    shipped = find_project()
    for name in plan_names(shipped):
        plan = compose(shipped, name).plan
        assert plan_digest(plan_from_json(plan_json(plan))) == plan_digest(plan)


def test_the_digest_does_not_depend_on_folder_time_zone_or_locale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = plan_digest(compose(project(tmp_path / "a", BASE), "p").plan)
    odd = tmp_path / "a folder, with = and é"
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)
    assert plan_digest(compose(project(odd, BASE), "p").plan) == here
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0", "1.00"])
def test_spellings_of_one_float_have_one_digest(tmp_path: Path, spelling: str) -> None:
    text = BASE.replace("limits: {}", f"limits: {{aa_ratio: {spelling}}}")
    reference = BASE.replace("limits: {}", "limits: {aa_ratio: 1.0}")
    assert plan_digest(compose(project(tmp_path / "a", text), "p").plan) == plan_digest(
        compose(project(tmp_path / "b", reference), "p").plan
    )


@pytest.mark.parametrize("value", ["1.0", "1e0", "true", "'1'", ".nan"])
def test_an_integer_field_takes_integers_only(tmp_path: Path, value: str) -> None:
    text = BASE.replace("loops: 1}", f"loops: {value}}}")
    assert "model.loops" in error(tmp_path, text)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "'0.1'", "true"])
def test_a_float_field_takes_finite_numbers_only(tmp_path: Path, value: str) -> None:
    assert "limits.aa_ratio" in error(
        tmp_path, BASE.replace("limits: {}", f"limits: {{aa_ratio: {value}}}")
    )


@pytest.mark.parametrize("value", ["123e4567", "0012345", "1234567", "on", "1:30"])
def test_an_unquoted_number_is_not_text(tmp_path: Path, value: str) -> None:
    message = error(tmp_path, BASE.replace("seed: demo", f"seed: {value}"))
    assert "partitions.seed" in message
    quoted = BASE.replace("seed: demo", f"seed: '{value}'")
    assert compose(project(tmp_path, quoted), "p").plan.partitions.seed == value


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("study: demo", "study: demo\nsead: 2"), "sead: unknown key"),
        (("study: demo", "study: ???"), "no value for study"),
        (("title: A", "study: again\ntitle: A"), "p.yaml"),
        (("seed: demo", "seed: '${oc.env:HOME}'"), "depends on the machine"),
        (("seed: demo", "seed: '${now:%Y}'"), "depends on the machine"),
        (("explore: 32", "explore: 33"), "expected schedule.blocks"),
        (("role: pristine", "role: patched"), "no arm has role pristine"),
        (("region: [1.3, null]", "region: [null, null]"), "could never fail"),
        (("min_clusters: 12", "min_clusters: 17"), "exceeds the 16 planned"),
        (("id: P2", "id: P1"), "appears twice"),
        (("blocks: 16, aa", "blocks: 1, aa"), "partitions.explore"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    message = error(tmp_path, BASE.replace(*change, 1))
    assert expected in message
    assert "p.yaml" in message


def test_an_unknown_plan_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean p_one"):
        compose(project(tmp_path, BASE, "p_one"), "p_on")


def test_sources_name_every_file_that_took_part(tmp_path: Path) -> None:
    folder = project(tmp_path, BASE.replace("model: {name: none, loops: 1}\n", ""))
    (tmp_path / "conf/model").mkdir()
    (tmp_path / "conf/model/m.yaml").write_text("name: none\nloops: 1\n")
    text = (tmp_path / "conf/p.yaml").read_text().replace("- _self_", "- model: m\n  - _self_")
    (tmp_path / "conf/p.yaml").write_text(text)
    (tmp_path / "conf/q.yaml").write_text("defaults:\n  - p\n  - _self_\ntitle: variant\n")
    composed = compose(folder, "q")
    assert composed.plan.title == "variant"
    names = {path.relative_to(tmp_path).as_posix() for path in composed.sources}
    assert names == {"conf/q.yaml", "conf/p.yaml", "conf/model/m.yaml"}


def test_a_later_schema_is_refused_by_name() -> None:
    data = plan_json(compose(find_project(), "demo_fake").plan)
    with pytest.raises(ChangedError, match="schema 2 is not known"):
        plan_from_json({**data, "schema": 2})
