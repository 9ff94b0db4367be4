"""The public trap set: 150 flasks with a fault and 150 harmless ones; what the flask check says of each."""

from __future__ import annotations

from helpers.paths import ROOT

from chemspec.chem.checks.flask_check import check_flask, trap_score

ROWS = [
    line.split("\t")
    for line in (ROOT / "tests" / "data" / "trap_flasks.tsv").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_traps_are_told_and_harmless_flasks_raise_no_warning() -> None:
    verdicts = {(flask, product): (verdict, check_flask(flask, product)) for verdict, _, flask, product in ROWS}
    traps = [pair for pair, (verdict, _) in verdicts.items() if verdict == "trap"]
    harmless = [pair for pair, (verdict, _) in verdicts.items() if verdict == "fine"]
    missed = [pair for pair in traps if not verdicts[pair][1].problems]
    alarms = [(pair, verdicts[pair][1].problems) for pair in harmless if verdicts[pair][1].problems]
    counts = {"traps": len(traps), "told": len(traps) - len(missed), "harmless": len(harmless), "alarms": len(alarms)}
    assert counts == {name: trap_score()[name] for name in counts}, "the score that Models shows; write it anew"
    assert len(missed) <= 0.05 * len(traps), missed
    assert len(alarms) <= 0.02 * len(harmless), alarms


def test_a_solvent_conflict_comes_with_a_flask_that_has_none() -> None:
    for verdict, fault, flask, product in ROWS:
        if verdict == "trap" and fault == "solvent":
            repairs = [repaired for *_, repaired in check_flask(flask, product).repairs]
            assert repairs, flask
            left = [check_flask(repaired, product) for repaired in repairs]
            assert any(not any("Conflict: " in text for text in report.problems) for report in left), (flask, repairs)
