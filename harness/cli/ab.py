"""`harness ab -- CMD -- CMD`: a sixty-second honest A/B of two programs, or of two arms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.output import console, note, print_json
from harness.cli.parsing import parser
from harness.store.canonical import Json
from harness.store.errors import Exit, UsageError, VoidError

if TYPE_CHECKING:
    from harness.cli.duel import Duel

_USAGE = (
    "harness ab [OPTIONS] -- PROGRAM [ARGUMENT …] -- PROGRAM [ARGUMENT …], or ARM ARM conf=PLAN"
)
_ALWAYS = (
    "nothing was frozen: the length, the clock and the comparison could all have been chosen late",
    "one start of each program: a start's luck is part of the difference",
)


def main(argv: Sequence[str]) -> int:
    """Compare two programs and say what the comparison is worth; exit 9 if the A/A fails."""
    options, commands = _split(list(argv))
    made = parser("ab", f"a short, honest A/B: {_USAGE}", json=True)
    made.usage = _USAGE
    made.add_argument("--seconds", type=float, default=60.0, help="about how long (60)")
    made.add_argument("--items", type=int, default=4, help="items of a block (4)")
    made.add_argument("--tokens", type=int, default=64, help="longest answer in tokens (64)")
    made.add_argument("--write", metavar="PLAN", help="write conf/PLAN.yaml, ready to freeze")
    made.add_argument("words", nargs="*", metavar="ARM ARM conf=PLAN")
    args = made.parse_intermixed_args(options)
    from harness.cli.duel import blocks_within, cores_busy, fight, resized

    duel = _duel(args, commands)
    busy = cores_busy()
    for name, line in _lines(duel, commands).items():
        note(f"starts {name}: {line}")
    duel = resized(duel, blocks_within(duel, args.seconds))
    schedule = duel.plan.schedule
    note(f"{schedule.aa_blocks} A/A blocks, then {schedule.blocks} blocks ABBA/BAAB; fixed now")
    try:
        analysis = fight(duel, lambda _: None)
    except VoidError as error:
        note(f"harness: {error}")
        return Exit.VOID
    result = _result(duel, analysis, busy)
    if args.write:
        result["plan"] = _write(args.write, duel, commands)
    if args.json:
        print_json(result)
    else:
        _print(duel, result)
    return Exit.DONE


def _split(argv: list[str]) -> tuple[list[str], tuple[list[str], list[str]] | None]:
    """Return options and the two command lines; none where arms are named instead."""
    if "--" not in argv:
        return argv, None
    first = argv.index("--")
    options, rest = argv[:first], argv[first + 1 :]
    if rest.count("--") != 1:
        raise UsageError(f"ab: expected two programs, each after `--`: {_USAGE}")
    second = rest.index("--")
    if not rest[:second] or not rest[second + 1 :]:
        raise UsageError(f"ab: a program is missing: {_USAGE}")
    return options, (rest[:second], rest[second + 1 :])


def _duel(args: Any, commands: tuple[list[str], list[str]] | None) -> Duel:
    from harness.cli.duel import of_arms, of_programs

    if args.items < 1 or args.tokens < 1 or not 0 < args.seconds < math.inf:
        raise UsageError("ab: --seconds, --items and --tokens must be above 0")
    if commands is not None:
        if args.words:
            raise UsageError(f"ab: {args.words[0]}: name programs or arms, not both: {_USAGE}")
        return of_programs(commands, args.items, args.tokens)
    from harness.plan.compose import compose
    from harness.plan.words import parse_words
    from harness.store.paths import find_project

    arms = [word for word in args.words if "=" not in word]
    if len(arms) != 2 or len(args.words) < 3:
        raise UsageError(f"ab: {_USAGE}")
    project = find_project()
    given = parse_words([word for word in args.words if "=" in word])
    plan = compose(project, given.plan, given.overrides).plan
    return of_arms(project, plan, (arms[0], arms[1]))


def _lines(duel: Duel, commands: tuple[list[str], list[str]] | None) -> dict[str, str]:
    if commands is not None:
        return {name: " ".join(words) for name, words in zip("ab", commands, strict=True)}
    from harness.backends.table import command

    arms = duel.plan.arms
    return {name: " ".join(command(arms[name].backend, arms[name].options)) for name in duel.pair}


def _result(duel: Duel, analysis: Json, busy: str | None) -> Json:
    wall, cpu, tokens = (_numbers(one) for one in analysis["verdicts"])
    aa = analysis["aa"]["interval"]
    both = [analysis["arms"][name].get("tokens", 0) for name in duel.pair]
    threats = [*_ALWAYS, *([busy] if busy else []), *analysis["threats"]]
    if _within_noise(aa, cpu):
        threats.append(
            "the difference is no larger than what two starts of one program may differ by (A/A)"
        )
    if tokens["estimate"] is not None and tokens["estimate"] < 1:
        threats.append("their answers differ, so a speed-up may have been paid for in quality")
    if not all(both):
        threats.append("an arm produced no tokens at all")
    return {
        "arms": list(duel.pair),
        "blocks": duel.plan.schedule.blocks,
        "aa": {name: _exp(aa.get(name)) for name in ("estimate", "low", "high")},
        "delta": analysis["aa"]["delta"],
        "wall": wall,
        "cpu": cpu,
        "same_tokens": tokens,
        "tokens": dict(zip(duel.pair, both, strict=True)),
        "threats": threats,
        "citable": False,
    }


def _within_noise(aa: Json, found: Json) -> bool:
    """Whether a ratio lies inside the A/A interval's reach; both must be estimable."""
    ends = (aa.get("low"), aa.get("high"), found["estimate"])
    if None in ends:
        return False
    return bool(abs(math.log(found["estimate"])) <= max(abs(aa["low"]), abs(aa["high"])))


def _numbers(verdict: Json) -> Json:
    return {name: verdict[name] for name in ("estimate", "low", "high", "confidence_level", "n")}


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _print(duel: Duel, result: Json) -> None:
    out, (first, second) = console(), duel.pair
    out.print(
        f"A/A, {first} against itself: {_ratio(result['aa'])}, allowed ±{result['delta']:.0%}"
    )
    for clock in ("cpu", "wall"):
        found = result[clock]
        out.print(
            f"{second} is {_ratio(found)} times as fast as {first} ({clock} time of decoding, "
            f"{found['confidence_level']:.0%} interval over {found['n']} blocks)"
        )
    same = result["same_tokens"]
    share = "not estimable" if same["estimate"] is None else f"{same['estimate']:.1%}"
    out.print(f"the same tokens on {share} of {same['n']} items")
    out.print("threats:")
    for threat in result["threats"]:
        out.print(f"  {threat}", markup=False)
    plan = result.get("plan")
    how = (
        f"harness freeze conf={plan}" if plan else "harness ab --write PLAN …, then harness freeze"
    )
    out.print(f"to make this citable: {how}")


def _ratio(found: Json) -> str:
    if found["estimate"] is None or found["low"] is None or found["high"] is None:
        return "(not estimable)"
    return f"{found['estimate']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def _write(name: str, duel: Duel, commands: tuple[list[str], list[str]] | None) -> str:
    """Write the duel as a confirm plan; the bar is left for the author to set."""
    from harness.cli.duel_plan import confirm_plan
    from harness.store.files import create
    from harness.store.paths import find_project

    project = find_project()
    path = project.root / "conf" / f"{name}.yaml"
    try:
        create(path, confirm_plan(name, duel, commands).encode())
    except FileExistsError:
        raise UsageError(
            f"conf/{Path(name).name}.yaml: exists already; choose another name"
        ) from None
    return name
