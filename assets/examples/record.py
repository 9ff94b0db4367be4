"""Answer the examples that the first page shows and write down what came out, for `chemspec/ui/predict/gallery.py`.

    python assets/examples/record.py

Run it after a model was exchanged. Of each task it writes `answered_TASK.json`, the search for several answers with the
settings of the page, and `first_TASK.json`, the first answer decoded greedily.
"""

from __future__ import annotations

from pathlib import Path

from chemspec.engine.engine import Engine
from chemspec.engine.registry import model_folder
from chemspec.settings import DecodeSettings, Task
from chemspec.types import to_json

HERE = Path(__file__).resolve().parent
EXAMPLES: dict[Task, tuple[str, int]] = {  # query, answers wanted
    "forward": (
        "O=C(NCc1ccccc1)c1ccc(Br)cc1.OB(O)c1ccncc1.O=C([O-])[O-].[K+].[K+]."
        "c1ccc(P(c2ccccc2)c2ccccc2)cc1.[Pd].Cc1ccccc1.CCO",
        5,
    ),
    "retro": ("CCN(CC)CC(=O)Nc1c(C)cccc1C", 20),
}


def main() -> None:
    """Write the files."""
    for task, (query, wanted) in EXAMPLES.items():
        engine = Engine.load(model_folder(task))
        canonical = engine.prepare(query).smiles
        ways = {"answered": DecodeSettings(n=wanted, distinct=True), "first": DecodeSettings(decoder="greedy", n=1)}
        for kind, settings in ways.items():
            (result,) = engine.predict([canonical], settings)
            (HERE / f"{kind}_{task}.json").write_text(to_json(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
