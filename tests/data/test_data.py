"""Tests of data/: the same arrays however they are made, and batches that cover everything once."""

from __future__ import annotations

import csv
import gzip
import io
import json
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from helpers.case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from chemspec.chem import canonical
from chemspec.data import prepare as module
from chemspec.data.arrays import Pairs, RaggedArray, TokenBatches, pad
from chemspec.data.prepare import prepare
from chemspec.data.reactions import smiles_variants
from chemspec.data.settings import DataSettings
from chemspec.data.shards import read_rows
from chemspec.system.locks import LockedError, lock_folder
from chemspec.tasks import TASKS
from chemspec.tokenizer import BOS, EOS, PAD, Tokenizer

RETRO = DataSettings(task="retro", variants=3, min_count=1)
FORWARD = DataSettings(task="forward", variants=3, flat_share=0.5, min_count=1)


def retro_rows(count: int = 30) -> list[dict[str, str]]:
    """Esters of growing chains; the 8th cannot be used, the 9th has a rare atom, the 10th is a test product."""
    rows = []
    for length in range(1, max(count, 10) + 1):
        chain = "".join(f"[CH2:{10 + place}]" for place in range(length))
        ester = f"[CH3:1]{chain}[C:2](=[O:3])[O:4][CH3:5]"
        acid = f"[CH3:1]{chain}[C:2](=[O:3])O.[OH:4][CH3:5]"
        rows.append({"mapped_rxn": f"{acid}>>{ester}", "test": "0", "product": "", "reactants": ""})
    rows[7]["mapped_rxn"] = "CC>>CC"
    rows[8]["mapped_rxn"] = "[CH3:1][SnH2:2]Cl>>[CH3:1][SnH3:2]"
    rows[9]["test"] = "1"
    return rows[:count]


def forward_rows() -> list[dict[str, str]]:
    mapped = "[CH3:1][C@H:2]([F:3])[C:4](=[O:5])O.[NH2:6][CH3:7]>>[CH3:1][C@H:2]([F:3])[C:4](=[O:5])[NH:6][CH3:7]"
    core, product = "CN.C[C@H](F)C(=O)O", "CNC(=O)[C@H](C)F"
    row = {
        "mapped_core_rxn": mapped,
        "core_reactants": core,
        "reactants_and_reagents": f"{core}.ClCCl",
        "main_product": product,
    }
    return [row, {**row, "mapped_core_rxn": ""}]


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    content = text.getvalue().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return path


def same(one: Pairs, other: Pairs) -> bool:
    return all(
        np.array_equal(getattr(mine, name), getattr(yours, name))
        for mine, yours in ((one.sources, other.sources), (one.targets, other.targets))
        for name in ("flat", "offsets")
    )


@pytest.fixture
def retro_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "SHARD", 8)
    return write(tmp_path / "retro.csv.gz", retro_rows())


# --- prepare -------------------------------------------------------------------------------------


def test_workers_do_not_change_the_arrays(retro_csv: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    one = prepare([retro_csv], tmp_path / "one", RETRO, workers=1)
    two = prepare([retro_csv], tmp_path / "two", RETRO, workers=2, progress=lambda *pair: seen.append(pair))
    assert one == two
    assert one["pairs"] > 60
    assert same(Pairs.load(tmp_path / "one/train.npz"), Pairs.load(tmp_path / "two/train.npz"))
    assert seen[0] == (0, 30)
    assert seen[-1] == (30, 30)
    assert json.loads((tmp_path / "one" / "train.json").read_text())["files"] == one["files"]


def test_merges_are_learned_from_the_data_and_shorten_them(retro_csv: Path, tmp_path: Path) -> None:
    atoms = prepare([retro_csv], tmp_path / "atoms", RETRO, workers=1)
    merged = prepare([retro_csv], tmp_path / "merged", replace(RETRO, merges=20), workers=1)
    dropped = prepare([retro_csv], tmp_path / "dropped", replace(RETRO, merges=20, merge_dropout=1.0), workers=1)
    assert merged["pairs"] == dropped["pairs"] == atoms["pairs"]
    assert merged["vocabulary"] == atoms["vocabulary"] + 20
    assert merged["source_tokens"] < 0.8 * atoms["source_tokens"]
    assert merged["source_tokens"] < dropped["source_tokens"] < atoms["source_tokens"]
    assert merged["target_tokens"] == dropped["target_tokens"]  # or a model would list a text in several cuts
    texts = {}
    for name in ("atoms", "merged", "dropped"):
        tokenizer, pairs = Tokenizer.load(tmp_path / name / "vocab.json"), Pairs.load(tmp_path / name / "train.npz")
        texts[name] = [tokenizer.decode(pairs.targets[i].tolist()) for i in range(len(pairs))]
    assert texts["atoms"] == texts["merged"] == texts["dropped"]


def test_an_interrupted_preparation_goes_on(retro_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prepare([retro_csv], tmp_path / "out", RETRO, workers=1)
    before = Pairs.load(tmp_path / "out" / "train.npz")
    shards = sorted((tmp_path / "out" / "train-shards").glob("*.tsv"))
    assert len(shards) == 4
    shards[1].unlink()
    shards[2].rename(shards[2].with_suffix(".partial"))
    (tmp_path / "out" / "train.npz").unlink()
    made = []
    monkeypatch.setattr(module, "write_shard", lambda job, **more: made.append(job[1]) or write_shard(job, **more))
    assert prepare([retro_csv], tmp_path / "out", RETRO, workers=1) == whole
    assert made == [8, 16]
    assert same(Pairs.load(tmp_path / "out" / "train.npz"), before)
    assert not list(tmp_path.rglob("*.partial"))


write_shard = module.write_shard


def test_other_settings_or_another_file_do_not_reuse_shards(retro_csv: Path, tmp_path: Path) -> None:
    first = prepare([retro_csv], tmp_path / "out", RETRO, workers=1)
    other = prepare([retro_csv], tmp_path / "out", replace(RETRO, variants=1), workers=1)
    assert other["pairs"] < first["pairs"]
    fresh = prepare([retro_csv], tmp_path / "fresh", replace(RETRO, variants=1), workers=1)
    assert other == fresh
    plain = write(tmp_path / "plain.csv", retro_rows())
    size = plain.stat().st_size
    old = prepare([plain], tmp_path / "plain", RETRO, workers=1)
    plain.write_bytes(plain.read_bytes().replace(b"[OH:4]", b"[SH:4]").replace(b"[O:4]", b"[S:4]"))
    assert plain.stat().st_size == size
    new = prepare([plain], tmp_path / "plain", RETRO, workers=1)
    assert new["vocabulary"] == old["vocabulary"] + 1


def test_plain_and_gzipped_files_are_read_alike(tmp_path: Path) -> None:
    zipped = write(tmp_path / "a.csv.gz", retro_rows(5))
    plain = write(tmp_path / "a.csv", retro_rows(5))
    marked = tmp_path / "excel.csv"
    marked.write_text("\ufeff" + plain.read_text(), encoding="utf-8")
    assert list(read_rows(zipped)) == list(read_rows(plain)) == list(read_rows(marked))


def test_rows_with_rare_tokens_are_left_out_and_counted(retro_csv: Path, tmp_path: Path) -> None:
    every = prepare([retro_csv], tmp_path / "every", RETRO, workers=1)
    assert every["pairs_with_rare_tokens"] == 0
    common = prepare([retro_csv], tmp_path / "common", replace(RETRO, min_count=10), workers=1)
    assert common["pairs_with_rare_tokens"] > 0
    assert common["pairs"] + common["pairs_with_rare_tokens"] == every["pairs"]
    tokens = Tokenizer.load(tmp_path / "common" / "vocab.json").tokens
    assert "[SnH3]" not in tokens
    flat = Pairs.load(tmp_path / "common" / "train.npz").targets.flat
    assert 4 <= flat.min() <= flat.max() < len(tokens)


@pytest.mark.parametrize(
    ("changes", "pairs"), [({}, 29), ({"leave_out": ("test",)}, 28), ({"only": ("test",)}, 1), ({"limit": 5}, 5)]
)
def test_rows_are_chosen_by_their_flags_and_by_a_limit(
    retro_csv: Path, tmp_path: Path, changes: dict[str, Any], pairs: int
) -> None:
    settings = replace(RETRO, variants=1, **changes)
    assert prepare([retro_csv], tmp_path / "out", settings, workers=1)["pairs"] == pairs
    if "limit" in changes:  # of each file
        other = write(tmp_path / "other.csv", retro_rows(12))
        assert prepare([retro_csv, other], tmp_path / "both", settings, workers=1)["pairs"] == 2 * pairs
    for flag in ("leave_out", "only"):  # an error, not a leak
        with pytest.raises(ValueError, match="has no column product_in_test"):
            prepare([retro_csv], tmp_path / "out", replace(RETRO, **{flag: ("product_in_test",)}))


def test_rows_without_maps_get_guessed_ones_if_asked(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", forward_rows())
    plain = prepare([file], tmp_path / "plain", FORWARD, workers=1)
    guessed = prepare([file], tmp_path / "more", replace(FORWARD, guess_maps=True), workers=1)
    assert plain["pairs"] < guessed["pairs"]
    columns = ("reactants_and_reagents", "main_product")
    unmapped = [{name: row[name] for name in columns} for row in forward_rows()]
    file = write(tmp_path / "b.csv", unmapped)
    with pytest.raises(ValueError, match="has no column mapped_core_rxn, core_reactants"):
        prepare([file], tmp_path / "none", FORWARD, workers=1)
    every = replace(FORWARD, guess_maps=True)
    assert prepare([file], tmp_path / "every", every, workers=1)["pairs"]


def test_long_reactions_are_left_out(retro_csv: Path, tmp_path: Path) -> None:
    settings = replace(RETRO, max_tokens=20)
    prepare([retro_csv], tmp_path / "out", settings, workers=1)
    pairs = Pairs.load(tmp_path / "out" / "train.npz")
    assert max(pairs.sources.lengths.max(), pairs.targets.lengths.max()) == 20


def test_the_texts_mean_what_the_rows_say(retro_csv: Path, tmp_path: Path) -> None:
    prepare([retro_csv], tmp_path / "out", RETRO, workers=1)
    pairs = Pairs.load(tmp_path / "out" / "train.npz")
    tokenizer = Tokenizer.load(tmp_path / "out" / "vocab.json")
    texts = [(tokenizer.decode(pairs.sources[i]), tokenizer.decode(pairs.targets[i])) for i in (0, 1)]
    assert texts[0] == ("CCC(=O)OC", "CCC(=O)O.OC")  # in the order of the source
    assert canonical(texts[1][0]) == "CCC(=O)OC"


def test_a_missing_column_is_named_with_those_found(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", [{"product": "CC", "reactants": "CC"}])
    with pytest.raises(ValueError, match="has no column mapped_rxn") as caught:
        prepare([file], tmp_path / "out", RETRO)
    assert str(file) in str(caught.value)
    assert "product, reactants" in str(caught.value)
    with pytest.raises(ValueError, match="mapped_core_rxn, core_reactants, reactants_and_reagents"):
        prepare([file], tmp_path / "out", FORWARD)
    assert not (tmp_path / "out").exists()


def test_no_usable_reaction_says_why(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", [{"mapped_rxn": "CC>>CC"}] * 3)
    with pytest.raises(
        ValueError, match=r"no usable reaction in the 3 rows of .*a\.csv: 0 pairs .* no usable atom maps"
    ):
        prepare([file], tmp_path / "out", RETRO, workers=1)
    file = write(tmp_path / "b.csv", retro_rows(2))
    with pytest.raises(ValueError, match=r"4 pairs have a token .*min_count is 99"):
        prepare([file], tmp_path / "out", replace(RETRO, variants=2, min_count=99), workers=1)
    (tmp_path / "empty.csv").write_text("mapped_rxn\n")
    with pytest.raises(ValueError, match=r"empty\.csv has no rows"):
        prepare([tmp_path / "empty.csv"], tmp_path / "out", RETRO, workers=1)
    with pytest.raises(ValueError, match="no data file"):
        prepare([], tmp_path / "out", RETRO)


@pytest.mark.parametrize(
    "content", [b"\x1f\x8b broken", b"plain text", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9]]
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.csv\.gz is damaged or not a CSV"):
        list(read_rows(tmp_path / "a.csv.gz"))


def test_a_fault_in_a_worker_is_raised_at_once(
    retro_csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD", 1)
    settings, shards = replace(RETRO, variants=20), tmp_path / "out" / "train-shards"
    blocked = shards / "retro.csv.gz-00000000.partial"  # where the first shard is to be written

    def block(*_: int) -> None:
        blocked.mkdir(exist_ok=True)

    with pytest.raises(OSError, match=r"00000000\.partial") as caught:
        prepare([retro_csv], tmp_path / "out", settings, workers=2, progress=block)
    assert "in write_shard" in str(caught.value.__cause__), "the traceback that a worker sent"
    assert len(list(shards.glob("*.tsv"))) < 29, "the others were not waited for"
    blocked.rmdir()
    assert prepare([retro_csv], tmp_path / "out", settings, workers=1) == prepare(
        [retro_csv], tmp_path / "good", settings, workers=1
    )


HANGS = """
import sys, time
from pathlib import Path
from chemspec.data import prepare as module

def hang(done, total):
    if done:
        print("at work", flush=True)
        time.sleep(300)

module.SHARD = 8
settings = module.DataSettings(task="retro", min_count=1)
module.prepare([Path(sys.argv[1])], Path(sys.argv[2]), settings, workers=2, progress=hang)
"""


def test_workers_end_when_their_parent_is_killed(retro_csv: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGS, str(retro_csv), str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "at work\n"
        run.kill()
        run.communicate(timeout=60)  # ends when nobody has the other end any more, workers included


def test_two_commands_do_not_share_a_folder(retro_csv: Path, tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(LockedError, match="another process writes"):
        prepare([retro_csv], tmp_path, RETRO, workers=1)


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    files = [write(tmp_path / "a.csv", retro_rows(2)), write(tmp_path / "x" / "a.csv", retro_rows(3))]
    with pytest.raises(ValueError, match="same name"):
        prepare(files, tmp_path / "out", RETRO)


def test_a_given_vocabulary_is_used_and_kept_beside_the_arrays(retro_csv: Path, tmp_path: Path) -> None:
    prepare([retro_csv], tmp_path / "a", RETRO, workers=1)
    vocab = tmp_path / "a" / "vocab.json"
    for folder in ("a", "b"):
        prepare([retro_csv], tmp_path / folder, RETRO, vocab=vocab, name="val", workers=1)
        assert Tokenizer.load(tmp_path / folder / "vocab.json") == Tokenizer.load(vocab)
    with pytest.raises(ValueError, match=r"vocabulary of val\.npz and differs from that of train"):
        prepare([retro_csv], tmp_path / "a", replace(RETRO, min_count=10), workers=1)


@pytest.mark.parametrize(("fault", "message"), table("data/impossible_settings"))
def test_impossible_settings_are_refused(fault: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(RETRO, **fault)


# --- reactions -----------------------------------------------------------------------------------


def test_flat_variants_have_no_stereo() -> None:
    row = forward_rows()[0]
    for share, stereo in ((0.0, {True}), (1.0, {False}), (0.5, {True, False})):
        pairs = smiles_variants(row, "forward", count=20, flat_share=share, rng=Random(0))
        assert {"@" in source for source, _ in pairs} == stereo
        assert all(("@" in source) == ("@" in target) for source, target in pairs)
        assert all("ClCCl" in source.split(".") or "C(Cl)Cl" in source for source, _ in pairs)


def test_a_file_has_its_own_share_without_stereo(tmp_path: Path) -> None:
    files = [write(tmp_path / name, forward_rows()[:1]) for name in ("flat.csv", "stereo.csv")]
    settings = replace(FORWARD, flat_share=1.0, flat_share_of={"stereo.csv": 0.0})
    prepare(files, tmp_path / "out", settings, workers=1)
    shards = {path.name.partition(".csv")[0]: path.read_text() for path in (tmp_path / "out").glob("*/*.tsv")}
    assert "@" in shards["stereo"] and "@" not in shards["flat"]


def test_rows_without_maps_or_with_missing_fields_give_nothing() -> None:
    assert smiles_variants(forward_rows()[1], "forward", count=2, flat_share=0, rng=Random(0)) == []
    short = {**forward_rows()[0], "reactants_and_reagents": None}
    assert smiles_variants(short, "forward", count=2, flat_share=0, rng=Random(0)) == []  # type: ignore[arg-type]
    assert smiles_variants({"mapped_rxn": ""}, "retro", count=2, flat_share=0, rng=Random(0)) == []


def test_maps_can_be_ignored_so_that_all_targets_are_written_by_one_convention(tmp_path: Path) -> None:
    """With wrong maps, that take the ester's methyl from nowhere, the target is not written in the source's order."""
    wrong = {"mapped_rxn": "[CH3:1][C:2](=[O:3])O.CO>>[O:4]([CH3:5])[C:2]([CH3:1])=[O:3]"}
    row = {**wrong, "reactants": "CC(=O)O.CO", "product": "COC(C)=O"}
    bare = {**row, "mapped_rxn": ""}
    asked = replace(DataSettings(task="retro", variants=1, min_count=1), guess_maps=True)
    texts = []
    for name, told, settings in (
        ("ignored", row, replace(asked, ignore_maps=True)),
        ("bare", bare, asked),
        ("used", row, asked),
    ):
        file = write(tmp_path / f"{name}.csv", [told])
        prepare([file], tmp_path / name, settings, workers=1)
        texts.append(next((tmp_path / name / "train-shards").glob("*.tsv")).read_text())
    assert texts[0] == texts[1] != texts[2]


def test_guessed_maps_give_the_pairs_of_the_true_ones() -> None:
    row = forward_rows()[0]
    for task, mapped in (("forward", "mapped_core_rxn"), ("retro", "mapped_rxn")):
        true = smiles_variants({**row, mapped: row["mapped_core_rxn"]}, task, count=1, flat_share=0, rng=Random(0))
        bare = dict(zip(TASKS[task].columns, true[0], strict=True))
        assert smiles_variants(bare, task, count=1, flat_share=0, rng=Random(0), guess=True) == true
        assert smiles_variants(bare, task, count=1, flat_share=0, rng=Random(0)) == []


# --- arrays --------------------------------------------------------------------------------------

sequences = st.lists(st.lists(st.integers(4, 65535), min_size=1, max_size=9), min_size=1, max_size=30)


@given(sequences)
def test_ragged_gives_back_what_was_packed(lists: list[list[int]]) -> None:
    ragged = RaggedArray.pack(lists)
    assert len(ragged) == len(lists)
    assert [part.tolist() for part in ragged] == lists  # type: ignore[attr-defined]
    assert ragged.lengths.tolist() == list(map(len, lists))


def test_pairs_are_read_as_written(tmp_path: Path) -> None:
    pairs = Pairs(RaggedArray.pack([[4, 5], [6]]), RaggedArray.pack([[7], [8, 9, 65535]]))
    pairs.save(tmp_path / "a.npz")
    assert same(Pairs.load(tmp_path / "a.npz"), pairs)
    assert [file.name for file in tmp_path.iterdir()] == ["a.npz"]
    empty = Pairs(RaggedArray.pack([]), RaggedArray.pack([]))
    empty.save(tmp_path / "empty.npz")
    assert len(Pairs.load(tmp_path / "empty.npz")) == 0


def test_files_that_are_no_pairs_are_refused_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    (tmp_path / "text.npz").write_text("hello")
    Pairs(RaggedArray.pack([[4]] * 99), RaggedArray.pack([[4]] * 99)).save(tmp_path / "cut.npz")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-50])
    for name in ("other", "text", "cut"):
        with pytest.raises(ValueError, match=rf"{name}\.npz is not a file of prepared reactions"):
            Pairs.load(tmp_path / f"{name}.npz")
    np.savez(
        tmp_path / "odd.npz",
        sources=np.zeros(1),
        source_offsets=np.array([0, 1]),
        targets=np.zeros(0),
        target_offsets=np.array([0]),
    )
    with pytest.raises(ValueError, match=r"odd\.npz is damaged: 1 sources, 0 targets"):
        Pairs.load(tmp_path / "odd.npz")


def test_a_batch_is_padded_and_marked() -> None:
    pairs = Pairs(RaggedArray.pack([[4, 5], [6]]), RaggedArray.pack([[7], [8, 9]]))
    source, target = pairs.batch([0, 1])
    assert source.tolist() == [[4, 5], [6, PAD]]
    assert target.tolist() == [[BOS, 7, EOS, PAD], [BOS, 8, 9, EOS]]
    assert source.dtype == torch.int64
    assert pairs.batch([1], source_specials=True)[0].tolist() == [[BOS, 6, EOS]]
    assert pad([[1], [2, 3]]).tolist() == [[1, PAD], [2, 3]]


def many(count: int = 500) -> Pairs:
    rng = np.random.default_rng(0)
    sides = [[[4] * int(n) for n in rng.integers(1, 40, size=count)] for _ in range(2)]
    return Pairs(RaggedArray.pack(sides[0]), RaggedArray.pack(sides[1]))


@pytest.mark.parametrize(("tokens", "specials"), [(1, False), (50, False), (300, False), (300, True), (10**6, False)])
def test_an_epoch_covers_every_reaction_once_within_the_budget(tokens: int, specials: bool) -> None:
    pairs = many()
    batches = TokenBatches(pairs, tokens=tokens, seed=3, source_specials=specials)
    for number in (0, 1):
        epoch = batches.epoch(number)
        assert sorted(index for batch in epoch for index in batch) == list(range(len(pairs)))
        for batch in epoch:
            source, target = pairs.batch(batch, source_specials=specials)
            assert source.numel() + target.numel() <= tokens or len(batch) == 1
    assert batches.epoch(0) == TokenBatches(pairs, tokens=tokens, seed=3, source_specials=specials).epoch(0)
    assert tokens == 10**6 or batches.epoch(0) != batches.epoch(1)


@given(st.integers(0, 300))
def test_skipping_goes_on_exactly_where_it_was(skip: int) -> None:
    pairs = many(200)
    whole = list(islice(TokenBatches(pairs, tokens=100, seed=1), skip + 5))
    assert list(islice(TokenBatches(pairs, tokens=100, seed=1, skip=skip), 5)) == whole[skip:]


def test_the_order_of_batches_is_settled() -> None:
    """Runs under way and their checkpoints rely on it."""
    first = TokenBatches(many(50), tokens=200, seed=0).epoch(0)
    assert first[:3] == [[8, 3, 4], [45, 28, 9], [35, 16, 22]]
