"""The table of phrases, the tree that grows on them, and what is stored of all that."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from helpers.compilers import COMPILES
from helpers.small import TOKENIZER
from helpers.table import Table, run
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file

from chemspec import asset_files
from chemspec.decode.beam import greedy_search
from chemspec.draft.calibration import FILE, TABLE_FILE, DrafterCalibration, default_table, source_of_edits
from chemspec.draft.copy import CopyTracker, TokenClasses
from chemspec.draft.mixed import MIN_PROBABILITY
from chemspec.draft.registry import Mixed
from chemspec.draft.tree.edit_ngrams import COPY, EditNgramTable, Node, count_edits
from chemspec.draft.tree.table_file import COLUMNS, load_shared_table, load_table, save_shared_table, save_table
from chemspec.engine.engine import Engine, installed_models
from chemspec.model.cost import CostCurve
from chemspec.settings import DecodeSettings, Task
from chemspec.tokenizer import BOS, EOS, PAD
from chemspec.types import Prefix

VOCAB = 10
MARKS = TokenClasses.from_tokens(TOKENIZER.tokens)
queries = st.lists(st.integers(3, VOCAB - 1), min_size=1, max_size=20)
texts = st.lists(st.integers(3, VOCAB - 1), max_size=20)


def edited(seed: int, count: int = 3000) -> list[tuple[list[int], list[int]]]:
    """Answers that are the query with every 5 replaced by 8 9."""
    random, pairs = Random(seed), []
    for _ in range(count):
        source = [random.randrange(3, 8) for _ in range(random.randint(1, 15))]
        target = [new for token in source for new in ((8, 9) if token == 5 else (token,))]
        pairs.append((source, target))
    return pairs


@cache
def edit_table() -> EditNgramTable:
    """The table of those pairs."""
    return count_edits(edited(0), TokenClasses())


def random_table(random: Random) -> EditNgramTable:
    """A table that knows something, or nonsense."""
    if random.random() < 0.3:
        return edit_table()
    nodes: list[Node] = []
    for _ in range(20):
        shares = sorted((random.random() for _ in range(3)), reverse=True)
        tokens = random.sample([COPY, EOS, *range(3, VOCAB)], 3)
        nodes.append(Node(tuple(zip(tokens, shares, strict=True)), {}))
    for number, node in enumerate(nodes[1:], 1):
        nodes[random.randrange(number)].below[random.randrange(VOCAB)] = node
    return EditNgramTable.from_tree(nodes[0])


# The table ---------------------------------------------------------------------------------------


def steps_after(table: EditNgramTable, source: list[int], text: list[int]) -> dict[int, float]:
    tracker, prefix = CopyTracker(source, TokenClasses()), (BOS, *text)
    return dict(table.next_edits(tracker, tracker.state_after(prefix), prefix))


def columns_of(table: EditNgramTable) -> dict[str, list[int]]:
    children, starts = ([end - begin for begin, end in pairwise(ends)] for ends in (table.children, table.starts))
    columns = children, list(table.entries), starts, list(table.tokens), list(table.thousandths)
    return dict(zip(COLUMNS, columns, strict=True))


SMALL = {"children": [2, 1, 0, 0], "entries": [0, 4, 6, 1], "steps": [1, 0, 0, 2], "tokens": [3, COPY, 5]}
SMALL["thousandths"] = [900, 500, 400]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"children": [2, 1, 0]}, "do not fit"),
        ({"children": [2, 1, 1, 0]}, "do not fit"),
        ({"children": [0, 3, 0, 0]}, "do not fit"),  # node 1 would be its own parent
        ({"children": [4, -1, 0, 0]}, "fewer than no children"),
        ({"children": [2**40, 1, 0, 0]}, "or too many"),
        ({"children": [], "entries": [], "steps": [], "tokens": [], "thousandths": []}, "do not fit"),
        ({"entries": [0, 6, 4, 1]}, "not in order"),
        ({"entries": [0, 4, 4, 1]}, "not in order"),
        ({"entries": [0, 4, VOCAB, 1]}, "another vocabulary"),
        ({"entries": [0, -1, 6, 1]}, "another vocabulary"),
        ({"steps": [1, 0, 0, 3]}, "do not fit"),
        ({"steps": [4, 0, 0, -1]}, "fewer than no"),
        ({"tokens": [3, COPY, VOCAB]}, "another vocabulary"),
        ({"tokens": [3, COPY, PAD]}, "no answer has"),
        ({"tokens": [3, COPY, BOS]}, "no answer has"),
        ({"tokens": [3, -2, 4]}, "no answer has"),
        ({"tokens": [3, COPY]}, "do not fit"),
        ({"thousandths": [900, 1001, 400]}, "probabilities"),
        ({"thousandths": [900, -1, 400]}, "probabilities"),
        ({"thousandths": [0.9, 0.5, 0.4]}, "whole numbers"),
        ({"thousandths": [[900, 500, 400]]}, "shape"),
        ({"more": [1]}, "not a table"),
    ],
)
def test_a_damaged_table_in_a_file_is_refused(tmp_path: Path, change: dict[str, list[int]], fault: str) -> None:
    arrays = {name: np.array(values or np.zeros(0, int)) for name, values in {**SMALL, **change}.items()}
    save_file(arrays, tmp_path / TABLE_FILE)
    if not fault:
        table = DrafterCalibration.load(tmp_path, vocab_size=VOCAB).edit_table
        assert table is not None
        assert columns_of(table) == SMALL
        return
    with pytest.raises(ValueError, match=f"{TABLE_FILE}: .*{fault}.*chemspec train calibrate"):
        DrafterCalibration.load(tmp_path, vocab_size=VOCAB)


def test_a_file_with_any_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    """Whatever is read leads to some node and to tokens of the vocabulary, in compiled code too."""
    random, file = Random(3), tmp_path / "table"
    save_table(file, edit_table())
    whole, model = file.read_bytes(), Table(0, vocab_size=VOCAB, copying=4.0)
    read = 0
    for _ in range(400):
        raw = bytearray(whole)
        for _ in range(random.choice((1, 1, 4))):
            raw[random.randrange(len(raw))] = random.choice((0, 1, 2, 127, 128, 255))
        file.write_bytes(raw[: random.choice((len(raw), len(raw), random.randrange(len(raw))))])
        try:
            table = load_table(file, VOCAB)
        except ValueError:
            continue
        read += 1
        source = random.choices(range(3, VOCAB), k=20)
        drafts = []
        for compiled in (False, True) if COMPILES else (False,):
            options = {"max_len": 16, "top_k": 2, "record": True, "compiled": compiled}
            _, (passes,) = run(lambda _: greedy_search(max_len=16), [source], model, Mixed(table), **options)
            drafts.append([step.drafts for step in passes])
        assert drafts[0] and drafts[0] == drafts[-1]
    assert read > 10


# Another vocabulary ------------------------------------------------------------------------------

NAMES = ("<pad>", "<bos>", "<eos>", "<unk>", *"CNOScn")


@given(st.integers(0, 10**6), st.permutations(NAMES[3:]), queries, texts)
def test_a_table_says_the_same_in_another_vocabulary(
    seed: int, others: list[str], source: list[int], text: list[int]
) -> None:
    table, names = random_table(Random(seed)), (*NAMES[:3], *others, "Br")
    ids = [names.index(name) for name in NAMES]
    with TemporaryDirectory() as folder:
        save_table(Path(folder) / "table", table, tokens=NAMES)
        carried = load_shared_table(Path(folder) / "table", names)
    assert carried is not None
    theirs = steps_after(carried, [ids[token] for token in source], [ids[token] for token in text])
    ours = steps_after(table, source, text)
    assert list(theirs.items()) == [(step if step == COPY else ids[step], chance) for step, chance in ours.items()]


def bare_copy(name: str, folder: Path) -> Path:
    """A shipped model without what its drafters have learned."""
    unwanted = shutil.ignore_patterns("drafting.*", "drafters", "manifest.json")
    return Path(
        shutil.copytree(next(model for model in installed_models() if model.name == name), folder, ignore=unwanted)
    )


@pytest.mark.parametrize("task", ["forward", "retro"])
def test_the_default_table_is_that_of_the_shipped_model(task: Task, tmp_path: Path) -> None:
    """Made again by `python tests/programs/share_edits.py TASK --out assets/drafting/TASK.safetensors`."""
    engine, file = Engine.load(task, threads=1), tmp_path / "table"
    own = engine.resources.calibration().edit_table
    assert own is not None
    save_shared_table(file, own, engine.tokenizer.smiles_tokens, deepest=7, made="")
    tokens = engine.tokenizer.smiles_tokens
    assert load_shared_table(file, tokens) == default_table(task, tokens)
    assert file.stat().st_size < 1e6
    assert source_of_edits(engine.folder, task) == "own"


def test_a_model_without_a_table_drafts_with_the_default_one(tmp_path: Path) -> None:
    """Another vocabulary than that of the model whose table it is, fewer passes, the same answers."""
    folder = bare_copy("retro-50k", tmp_path / "bare")
    engine = Engine.load(folder, threads=1)
    assert engine.tokenizer != Engine.load("retro", threads=1).tokenizer
    assert source_of_edits(folder, "retro") == "default"
    engine.resources.measured_curve = CostCurve((1, 128), (1e-3, 2e-3))
    asked, how = asset_files.bench_queries("retro")[:8], DecodeSettings(decoder="greedy", n=1)
    runs = [engine.predict(list(asked), how)]
    engine.resources.loaded_calibration = DrafterCalibration()
    runs.append(engine.predict(list(asked), how))
    with_table, by_copying = (sum(len(result.trace.passes) for result in results) for results in runs)
    assert with_table < 0.8 * by_copying
    assert [result.hypotheses for result in runs[0]] == [result.hypotheses for result in runs[1]]


def test_a_larger_tree_takes_fewer_passes() -> None:
    engine = Engine.load("retro", threads=1)
    how = DecodeSettings(decoder="greedy", n=1, drafter="mixed", drafting="fixed")
    queries = list(asset_files.bench_queries("retro")[:8])
    small, large = engine.predict(queries, how), engine.predict(queries, how, draft_nodes=100)
    assert [result.hypotheses for result in small] == [result.hypotheses for result in large]
    assert sum(len(each.trace.passes) for each in large) < 0.9 * sum(len(each.trace.passes) for each in small)
    assert max(event.drafted for each in small for event in each.trace.passes) <= 20


def test_a_vocabulary_with_little_of_the_default_table_drafts_by_copying() -> None:
    assert default_table("retro", ("<pad>", "<bos>", "<eos>", "<unk>", "C", "c", "1")) is None
    assert default_table("reagents", NAMES) is None


def test_a_damaged_default_table_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chemspec.draft.calibration.assets_folder", lambda: tmp_path)
    assert default_table("retro", NAMES) is None
    (tmp_path / "drafting").mkdir()
    (tmp_path / "drafting/retro.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"drafting/retro\.safetensors: .*install chemspec again"):
        default_table("retro", NAMES)


# The tree ----------------------------------------------------------------------------------------


def test_the_tree_goes_through_an_edit() -> None:
    source = [3, 4, 6, 5, 7, 4, 6]
    drafts = Mixed(edit_table()).propose(source, (BOS, 3, 4), 99)
    assert drafts[0].tokens == (6, 8, 9, 7, 4, 6, EOS)
    assert drafts[0].positions == (2, -1, -1, -1, 5, 6, 7)  # 7 was learned: copying stood at 5
    assert [drafts[0].query_position(place) for place in range(4)] == [2, None, None, None]
    assert drafts[0].query_position(4) == 5
    assert len(drafts[0].probabilities) == 7


def every_path(mixed: Mixed, source: list[int], prefix: Prefix, deep: int) -> dict[tuple[int, ...], float]:
    """The chance of every path of at most `deep` tokens, by brute force."""
    tracker = CopyTracker(source, TokenClasses())
    found: dict[tuple[int, ...], float] = {}
    edge: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(deep):
        onward = {}
        for path, chance in edge.items():
            here = prefix + path
            state, met = tracker.state_after(here), set()
            for step, share in mixed.edit_table.next_edits(tracker, state, here):
                token = tracker.copied_token(state) if step == COPY else step
                if token not in met and chance * share >= MIN_PROBABILITY:
                    met.add(token)
                    onward[(*path, token)] = chance * share
        found |= onward
        edge = {path: chance for path, chance in onward.items() if path[-1] != EOS}
    return found


@given(queries, texts, st.integers(1, 12), st.integers(1, 6))
def test_the_tree_has_the_likeliest_nodes(source: list[int], text: list[int], nodes: int, max_new_tokens: int) -> None:
    mixed, prefix = Mixed(edit_table(), nodes=nodes, count=999), (BOS, *text)
    everything = every_path(mixed, source, prefix, max_new_tokens)
    drafts = mixed.propose(source, prefix, max_new_tokens)
    paths = {draft.tokens[:end] for draft in drafts for end in range(1, len(draft.tokens) + 1)}
    assert paths <= set(everything)
    assert len(paths) == min(nodes, len(everything))
    best = sorted(everything.values(), reverse=True)[:nodes]
    assert sorted((everything[path] for path in paths), reverse=True) == pytest.approx(best)
    # No draft is the beginning of another, and the one that promises most comes first.
    assert len({draft.tokens for draft in drafts}) == len(drafts)
    promised = [sum(everything[draft.tokens[:end]] for end in range(1, len(draft.tokens) + 1)) for draft in drafts]
    assert all(one >= other - 1e-9 for one, other in pairwise(promised))


# What is stored ----------------------------------------------------------------------------------


def test_knowledge_survives_the_disk(tmp_path: Path) -> None:
    assert DrafterCalibration.load(tmp_path, vocab_size=VOCAB) == DrafterCalibration()
    known = DrafterCalibration((0.5,) * 11, edit_table(), "a command")
    known.save(tmp_path)
    assert DrafterCalibration.load(tmp_path, vocab_size=VOCAB) == known
    assert sorted(file.name for file in tmp_path.iterdir()) == [FILE, TABLE_FILE]
    replace(known, edit_table=None).save(tmp_path)
    assert DrafterCalibration.load(tmp_path, vocab_size=VOCAB) == replace(known, edit_table=None)


def test_what_version_0_2_stored_besides_is_ignored(tmp_path: Path) -> None:
    file = {"made": "once", "by_match": [0.5] * 9, "phrases": {"parents": []}, "reading": {"match": [1.0]}}
    (tmp_path / FILE).write_text(json.dumps(file))
    assert DrafterCalibration.load(tmp_path, vocab_size=VOCAB) == DrafterCalibration(made="once")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "truncated"),
        ("[]", "JSON object"),
        ('{"by_chance": [0.5]}', "by_chance"),
        ('{"by_chance": [2,2,2,2,2,2,2,2,2,2,2]}', "by_chance"),
        ('{"by_chance": 3}', "len"),
        ("[" * 100_000, FILE),
    ],
)
def test_a_damaged_file_is_named_with_a_remedy(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ValueError, match=fault) as caught:
        DrafterCalibration.load(tmp_path, vocab_size=VOCAB)
    assert FILE in str(caught.value)
    assert "chemspec train calibrate" in str(caught.value)
