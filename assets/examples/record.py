"""Answer the examples that the first page and How it works show, and write down what came out.

    python assets/examples/record.py

Run it after a model was exchanged. Of each task it writes `answered_TASK.json`, the search for several answers with the
settings of the page, and `first_TASK.json`, the first answer decoded greedily.

How much is drafted depends on the measured cost of a pass, which a busy machine measures too high. So a record with the
same answers is replaced only by one with fewer passes: it is the faster machine's. `learn/amide.json` has drafts of a
fixed length, which no machine changes, and what the model would have written after every prefix of each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from chemspec.engine.engine import Engine
from chemspec.engine.forks import score_drafts
from chemspec.engine.registry import model_folder
from chemspec.metrics import count_savings
from chemspec.replay import explanation
from chemspec.settings import DecodeSettings, Task
from chemspec.types import DecodeResult, result_from_json, to_json

HERE = Path(__file__).resolve().parent
EXAMPLES: dict[Task, tuple[str, int]] = {  # query, number of answers
    "forward": (
        "O=C(NCc1ccccc1)c1ccc(Br)cc1.OB(O)c1ccncc1.O=C([O-])[O-].[K+].[K+]."
        "c1ccc(P(c2ccccc2)c2ccccc2)cc1.[Pd].Cc1ccccc1.CCO",
        5,
    ),
    "retro": ("CCN(CC)CC(=O)Nc1c(C)cccc1C", 20),
}
STORY = "CC(C)(C)OC(=O)N1CCC(CC1)C(=O)O.Nc1ccc(F)cc1"  # of How it works, a query for the forward model


def main() -> None:
    """Write the files."""
    for task, (query, count) in EXAMPLES.items():
        engine = Engine.load(model_folder(task))
        canonical = engine.prepare(query).smiles
        ways = {"answered": DecodeSettings(n=count, distinct=True), "first": DecodeSettings(decoder="greedy", n=1)}
        for kind, settings in ways.items():
            (result,) = engine.predict([canonical], settings)
            path = HERE / f"{kind}_{task}.json"
            if supersedes(result, result_from_json(path.read_text(encoding="utf-8")) if path.exists() else None):
                path.write_text(to_json(result) + "\n", encoding="utf-8")
                sys.stdout.write(f"{path.name}: {count_savings(result).passes} passes\n")
            else:
                sys.stdout.write(f"{path.name}: left as it is, {count_savings(result).passes} passes here\n")
    (HERE / "learn" / "amide.json").write_text(tell_story() + "\n", encoding="utf-8")


def tell_story() -> str:
    """Return the example of How it works as JSON: its task, its result, the model's choices along its drafts."""
    engine = Engine.load(model_folder("forward"))
    (result,) = engine.predict([STORY], explanation.SETTINGS)
    scored = score_drafts(engine, STORY, result.hypotheses[0], explanation.drafts_of(result))
    choices = [[{text: round(p, 4) for text, p in after.items()} for after in along] for along in scored]
    parts = {"task": "forward", "result": json.loads(to_json(result)), "choices": choices}
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def supersedes(result: DecodeResult, recorded: DecodeResult | None) -> bool:
    """Whether a result says anything new: other answers, or fewer passes."""
    if recorded is None or recorded.hypotheses != result.hypotheses:
        return True
    return count_savings(result).passes < count_savings(recorded).passes


if __name__ == "__main__":
    main()
