"""From a finished run to its verdicts: seal, analyse, record, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cli.campaign import Campaign
from harness.cli.standing import opened, shown
from harness.cli.wiring import PACKAGE, analyse
from harness.ledger.chain import Chain
from harness.ledger.records import Counts, RunSealed, VerdictEntry, Verdicts, append, history
from harness.prereg.amendments import plan_in_force
from harness.run.seal import seal
from harness.store.canonical import Json
from harness.store.digests import digest, sha256_file
from harness.store.files import read_json, replace_json
from harness.store.paths import Project, RunPaths


def conclude(campaign: Campaign) -> tuple[Json, list[Path]]:
    """Seal a run, compute its verdicts, record both, and write its report.

    Each step is skipped where an earlier call has done it; returns the analysis and report files.
    """
    chain, paths = campaign.chain, campaign.paths
    lock_digest = str(read_json(paths.manifest)["lock_digest"]) if campaign.lock else None
    head = chain.head.json() if chain else None
    sealed = seal(paths, lock_digest=lock_digest, ledger_head=head)
    if chain:
        _record_seal(chain, campaign, sealed)
    plan = campaign.plan
    if campaign.lock:
        plan = plan_in_force(campaign.project, campaign.lock)
    analysis = analyse(plan, campaign.order, paths, role=campaign.role, attempt=campaign.attempt)
    replace_json(paths.analysis, analysis)
    if chain:
        _record_verdicts(chain, campaign, analysis)
        opened(campaign.project, campaign.plan.study, paths)
    said = shown(campaign.project, campaign.plan.study, paths, analysis)
    return said, report(campaign.project, paths, said)


def _record_seal(chain: Chain, campaign: Campaign, sealed: Json) -> None:
    name, run_id = campaign.plan.plan, campaign.paths.root.name
    if history(chain).sealed(name, run_id) is None:
        body = RunSealed(
            plan=name,
            run_id=run_id,
            seal_digest=sha256_file(campaign.paths.seal),
            records=Counts(**sealed["records"]),
        )
        append(chain, body)


def _record_verdicts(chain: Chain, campaign: Campaign, analysis: Json) -> None:
    name, run_id = campaign.plan.plan, campaign.paths.root.name
    if history(chain).verdicts(name, run_id):
        return
    entries = [
        VerdictEntry(
            id=one["id"],
            word=one["word"],
            estimate=one["estimate"],
            low=one["low"],
            high=one["high"],
        )
        for one in analysis["verdicts"]
    ]
    body = Verdicts(
        plan=name,
        run_id=run_id,
        seal_digest=analysis["seal_digest"],
        verdicts=entries,
        analysis_digest=digest(analysis),
    )
    append(chain, body)


def report(project: Project, paths: RunPaths, said: Json) -> list[Path]:
    """Write a run's report beside its records; `said` is its analysis as it is shown today."""
    from harness.report.run_report import write_run_report

    plan_json, more = report_inputs(project, paths)
    return write_run_report(said, plan_json, paths.report, **more)


def report_inputs(project: Project, paths: RunPaths) -> tuple[Json, dict[str, Any]]:
    """Return the plan of a run, and what its report shows beside the analysis."""
    manifest: Any = read_json(paths.manifest)
    lock_path = project.lock(manifest["plan"])
    locked = manifest["lock_digest"] is not None and lock_path.is_file()
    sealed: Any = read_json(paths.seal)
    return manifest["plan_json"], {
        "model_card": _card(manifest["plan_json"]["model"]["name"]),
        "lock": read_json(lock_path) if locked else None,
        "ledger_head": sealed["ledger_head"],
    }


def _card(model: str) -> Json | None:
    path = PACKAGE / "models" / model / "card.json"
    if not path.is_file():
        return None
    from harness.store.canonical import parse

    card: Json = parse(path.read_bytes())
    return card
