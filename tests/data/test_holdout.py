"""Held-out products: nothing that makes one is trained on, in whatever spelling, and trials hold out few."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from test_data import retro_rows, write

from chemspec.chem import canonical
from chemspec.data.arrays import Pairs
from chemspec.data.prepare import prepare
from chemspec.data.settings import DataSettings
from chemspec.tokenizer import SPECIALS, Tokenizer

RETRO = DataSettings(task="retro", variants=3, min_count=1)


@cache
def rows(count: int) -> list[dict[str, str]]:
    """Reactions that make different esters, each of them twice: the second from the acid's chloride."""
    plain = re.compile(r"\[([A-Z])[a-zH0-9]*:[0-9]+\]")
    found = []
    for row in retro_rows(count):
        for acid in ("O.", "Cl."):
            mapped = row["mapped_rxn"].replace("O.", acid)
            sides = [canonical(plain.sub(r"\1", side)) or "" for side in mapped.split(">>")]
            found.append({"mapped_rxn": mapped, "reactants": sides[0], "product": sides[1]})
    return [row for place, row in enumerate(found) if place // 2 not in (7, 8)]


def products(folder: Path, name: str = "train") -> list[str | None]:
    pairs, tokenizer = Pairs.load(folder / f"{name}.npz"), Tokenizer.load(folder / "vocab.json")
    return [canonical(tokenizer.decode(pairs.sources[index].tolist())) for index in range(len(pairs))]


def test_a_held_out_product_is_not_trained_on(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", rows(30))
    whole = prepare([file], tmp_path / "whole", RETRO, workers=1)
    told = prepare([file], tmp_path / "out", replace(RETRO, hold_out={"a.csv": 2}), workers=1)
    assert (whole["held_out"], told["held_out"]) == (0, 2)
    with (tmp_path / "out" / "heldout.csv").open() as text:
        held = list(csv.DictReader(text))
    assert all(row in rows(30) for row in held)
    apart = {row["product"] for row in held}
    assert len(apart) == 2
    left = products(tmp_path / "out")
    assert set(products(tmp_path / "whole")) - apart == set(left)
    assert len(left) > 100
    again = prepare([file], tmp_path / "again", replace(RETRO, hold_out={"a.csv": 2}, seed=9, variants=1), workers=1)
    assert again["held_out"] == 2
    assert (tmp_path / "again" / "heldout.csv").read_bytes() == (tmp_path / "out" / "heldout.csv").read_bytes()
    # What is held out is the validation file of the same recipe.
    out = tmp_path / "out"
    prepare([out / "heldout.csv"], out, replace(RETRO, variants=1), vocab=out / "vocab.json", name="val", workers=1)
    assert set(products(tmp_path / "out", "val")) == apart


def test_rows_without_maps_are_never_held_out_so_that_guessing_changes_no_draw(tmp_path: Path) -> None:
    every = [dict(row, mapped_rxn="" if place % 3 else row["mapped_rxn"]) for place, row in enumerate(rows(24))]
    file, held = write(tmp_path / "a.csv", every), replace(RETRO, hold_out={"a.csv": 2})
    drawn = []
    for guess in (False, True):
        prepare([file], tmp_path / f"{guess}", replace(held, guess_maps=guess), workers=1)
        drawn.append((tmp_path / f"{guess}" / "heldout.csv").read_text())
    assert drawn[0] == drawn[1]
    assert set(products(tmp_path / "False")) < set(products(tmp_path / "True"))


def test_a_trial_holds_out_a_tenth_at_most(tmp_path: Path) -> None:
    settings = replace(RETRO, hold_out={"a.csv": 2000}, limit=20)
    assert prepare([write(tmp_path / "a.csv", rows(30))], tmp_path / "out", settings, workers=1)["held_out"] == 1


def test_products_of_another_file_are_kept_apart_however_they_are_spelled(tmp_path: Path) -> None:
    file, tests = write(tmp_path / "a.csv", rows(20)), tmp_path / "tests.csv"
    write(tests, [{"product": "O(C)C(=O)CCC.[Na+]", "reactants": "C"}])
    settings = replace(RETRO, apart_from=("tests.csv",))
    prepare([file], tmp_path / "out", settings, apart=[tests], workers=1)
    prepare([file], tmp_path / "whole", RETRO, workers=1)
    assert set(products(tmp_path / "whole")) - set(products(tmp_path / "out")) == {"CCCC(=O)OC"}
    with pytest.raises(ValueError, match=r"keep apart from are tests\.csv"):
        prepare([file], tmp_path / "out", settings, workers=1)
    whole = prepare([file], tmp_path / "out", replace(settings, apart_from=()), workers=1)
    assert whole["pairs"] == len(products(tmp_path / "whole")), "shards were reused"


def test_files_have_their_own_number_of_spellings_and_share_of_tokens(tmp_path: Path) -> None:
    files = [write(tmp_path / name, rows(30)) for name in ("a.csv", "b.csv")]
    settings = replace(RETRO, variants=1, variants_of={"b.csv": 4}, share_of={"b.csv": 0.4})
    tokens = {}
    for name, wanted in (("all", replace(settings, share_of={})), ("some", settings)):
        told = prepare(files, tmp_path / name, wanted, workers=1)
        tokens[name] = told["source_tokens"] + told["target_tokens"]
    first = prepare(files[:1], tmp_path / "a", settings, workers=1)
    alone = first["source_tokens"] + first["target_tokens"]
    assert tokens["all"] > 4 * alone
    assert tokens["some"] == pytest.approx(alone / 0.6, rel=0.1)  # pairs are left out, not tokens
    few = prepare(files, tmp_path / "few", replace(settings, share_of={"b.csv": 0.999}), workers=1)
    assert few["source_tokens"] + few["target_tokens"] == tokens["all"]  # it has less than that


def test_a_vocabulary_is_extended_behind_that_of_the_model(tmp_path: Path) -> None:
    known = Tokenizer((*SPECIALS, "O", "[Si]", "C"))
    known.save(tmp_path / "vocab.json")
    file, settings = write(tmp_path / "a.csv", rows(5)), replace(RETRO, extend_vocabulary=True)
    prepare([file], tmp_path / "out", settings, vocab=tmp_path / "vocab.json", workers=1)
    tokens = Tokenizer.load(tmp_path / "out" / "vocab.json").tokens
    assert tokens[: len(known)] == known.tokens
    assert list(tokens[len(known) :]) == sorted(tokens[len(known) :]) != []
    with pytest.raises(ValueError, match=r"its vocab\.json with --vocab"):
        prepare([file], tmp_path / "other", settings, workers=1)
