"""Hydra composes `conf/`; pydantic types what comes out; nothing else of Hydra is used."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.plan.checks import check
from harness.plan.schema import Plan
from harness.plan.spelling import refuse_odd_spellings
from harness.store.errors import UsageError
from harness.store.paths import PACKAGED_CONF, Project

_VOLATILE = re.compile(r"\$\{\s*(oc\.env|now|hydra|oc\.decode)\s*:")
_LEVELS = frozenset({"level", "alpha", "confidence_level", "significance", "ci", "interval"})
"""Keys with which one would type a level by hand."""


@dataclass(frozen=True)
class Composed:
    """A typed plan and every file that took part in composing it."""

    plan: Plan
    sources: tuple[Path, ...]


def plan_names(project: Project) -> list[str]:
    """Return the names of all plans of a project, sorted."""
    return sorted(path.stem for path in project.conf.glob("*.yaml") if path.stem != "config")


def compose(project: Project, name: str, overrides: dict[str, str] | None = None) -> Composed:
    """Return the typed plan `conf/<name>.yaml` with `overrides` applied.

    Raises:
        UsageError: unknown plan or key, missing value, wrong type, or an interpolation that depends
            on the machine or the time; one line naming file and key.
    """
    path = project.conf / f"{name}.yaml"
    if not path.is_file():
        raise UsageError(_unknown(project, name))
    sources = _sources(project, path)
    for source in sources:
        text = _text(project, source)
        _refuse_volatile(project, source, text)
        refuse_odd_spellings(project.relative(source), text)
    values = _values(project, name, overrides or {})
    values["plan"] = name
    try:
        plan = Plan.model_validate(_lists_to_tuples(values))
    except ValidationError as error:
        raise UsageError(f"{project.relative(path)}: {_first(error)}") from error
    return Composed(check(plan), tuple(sources))


def _unknown(project: Project, name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, plan_names(project), n=1)
    hint = f"; did you mean {close[0]}?" if close else "; see `harness list`"
    return f"conf/{name}.yaml: no such plan{hint}"


def _folders(project: Project) -> list[Path]:
    return [folder for folder in (project.conf, PACKAGED_CONF) if folder.is_dir()]


def _text(project: Project, source: Path) -> str:
    """Return a conf file's text: UTF-8 without a byte order mark, in Unicode's composed form.

    The same word has one spelling then, and what a person compares is what is hashed.
    """
    name = project.relative(source)
    try:
        text = source.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error
    if text.startswith("\ufeff"):
        raise UsageError(f"{name}: starts with a byte order mark; save it as plain UTF-8")
    for number, line in enumerate(text.split("\n"), start=1):
        if not unicodedata.is_normalized("NFC", line):
            raise UsageError(
                f"{name}: line {number}: decomposed letters (NFD), expected composed ones (NFC); "
                "save it in NFC, so that one word has one spelling"
            )
    return text


def _sources(project: Project, path: Path) -> list[Path]:
    """Follow the defaults lists from `path`: the files whose bytes decide the composed plan."""
    found: list[Path] = []
    waiting = [path]
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.append(source)
            _text(project, source)
            waiting += _parents(project, source)
    return sorted(found)


def _parents(project: Project, source: Path) -> Iterator[Path]:
    for entry in _yaml(source).get("defaults") or []:
        names = [entry] if isinstance(entry, str) else [f"{k}/{v}" for k, v in entry.items()]
        for raw in names:
            name = re.sub(r"^override\s+|@[^/]*", "", raw)
            for folder in _folders(project):
                candidates = (folder / f"{name}.yaml", source.parent / f"{name}.yaml")
                hits = [candidate for candidate in candidates if candidate.is_file()]
                if name != "_self_" and hits:
                    yield hits[0]
                    break


def _yaml(path: Path) -> dict[str, Any]:
    from omegaconf import OmegaConf

    try:
        value = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    except Exception as error:  # YAML and OmegaConf errors share no base class
        raise UsageError(f"{path.name}: {_line(error)}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path.name}: expected a mapping at the top")
    return {str(key): entry for key, entry in value.items()}


def _refuse_volatile(project: Project, source: Path, text: str) -> None:
    match = _VOLATILE.search(text)
    if match:
        raise UsageError(
            f"{project.relative(source)}: ${{{match.group(1)}:…}} depends on the machine or the "
            "time, so the plan would not hash the same twice; write the value"
        )


def _values(project: Project, name: str, overrides: dict[str, str]) -> dict[str, Any]:
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    words = [f"{key}={value}" for key, value in overrides.items()]
    if PACKAGED_CONF.is_dir() and project.conf != PACKAGED_CONF:
        words.append(f"hydra.searchpath=[file://{PACKAGED_CONF}]")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(project.conf.resolve()), version_base="1.3"):
            node = hydra_compose(name, overrides=words)
        missing = sorted(OmegaConf.missing_keys(node))
        if missing:
            raise UsageError(f"conf/{name}.yaml: no value for {', '.join(missing)}")
        value = OmegaConf.to_container(node, resolve=True)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UsageError(f"conf/{name}.yaml: {_hydra_line(error)}") from error
    assert isinstance(value, dict)
    return {str(key): entry for key, entry in value.items()}


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return " ".join(part.strip() for part in text[:3] if part.strip())


def _hydra_line(error: Exception) -> str:
    """Hydra's first lines, without its advice to use `+`, which is not accepted here."""
    text = _line(error)
    unknown = re.match(r"Could not override '([^']+)'", text)
    return f"{unknown.group(1)}: not a key of this plan" if unknown else text


def _lists_to_tuples(values: dict[str, Any]) -> dict[str, Any]:
    """Strict pydantic takes tuples only from tuples; YAML has only lists."""
    schedule = values.get("schedule")
    if isinstance(schedule, dict) and isinstance(schedule.get("pair"), list):
        schedule["pair"] = tuple(schedule["pair"])
    for prediction in values.get("predictions") or []:
        if isinstance(prediction, dict):
            if isinstance(prediction.get("region"), list):
                prediction["region"] = tuple(prediction["region"])
            estimand = prediction.get("estimand")
            if isinstance(estimand, dict) and isinstance(estimand.get("arms"), list):
                estimand["arms"] = tuple(estimand["arms"])
    return values


def _first(error: ValidationError) -> str:
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden" and str(problem["loc"][-1]) in _LEVELS:
        return f"{key}: a level is never typed; it follows from the prediction's family"
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key; see `harness explain`"
    found = repr(problem["input"])
    shown = found if len(found) <= 60 else f"{found[:57]}…"
    return f"{key}: found {shown}, expected: {problem['msg'].lower()}{_quote_hint(problem)}"


def _quote_hint(problem: Any) -> str:
    number = isinstance(problem["input"], int | float)
    return "; quote the value" if problem["type"] == "string_type" and number else ""
