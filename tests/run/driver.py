"""A runner in a process of its own, for tests that kill it: `python -m tests.run.driver FOLDER`.

Arguments after the folder: a JSON object with `arms`, `schedule`, `limits`, `file_bytes`.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from harness.run.folder import create_run, unfinished
from harness.run.supervisor import execute
from harness.store.errors import HarnessError
from harness.store.paths import Project
from tests.run.bench import NONCE, context_of, plan_of


def main(folder: str, given: str = "{}") -> int:
    settings = json.loads(given)
    plan = plan_of(settings.get("arms"), settings.get("schedule"), settings.get("limits"))
    project = Project(Path(folder))
    paths = unfinished(project, plan) or create_run(
        project, plan, role="unregistered", nonce=NONCE, lock_digest=None
    )
    if settings.get("file_bytes"):
        size = settings["file_bytes"]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    print("begin", flush=True)
    try:
        outcome = execute(context_of(project, plan, paths))
    except HarnessError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return int(error.exit_code)
    print(json.dumps({"deaths": outcome.deaths, "interrupted": outcome.interrupted}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
