"""One test of each group that does not run by default: enough to notice that the whole of it is broken.

That of the browser is slow.

What is heavy is imported inside the tests, so that only the process that runs one pays for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.app_server import wait_for_address
from helpers.paths import ROOT
from helpers.recompute import recompute
from helpers.small import shipped

from chemspec import asset_files
from chemspec.engine.engine import Engine
from chemspec.model import checkpoint
from chemspec.settings import DecodeSettings, TrainSettings, preset_config
from chemspec.tokenizer import EOS, SPECIALS, Tokenizer

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("task", ["forward", "retro"])
def test_weights_greedy_and_beam_are_those_of_the_decoder_without_cache(task: str) -> None:
    """The same law as `evaluation/test_lossless_weights.py`, on one query."""
    engine = shipped(task, dtype="fp32")
    model = checkpoint.load(engine.folder).model
    queries = sorted(asset_files.bench_queries(engine.task), key=len)[40:41]
    for decoder, n in (("greedy", 1), ("beam", 3)):
        plain = DecodeSettings(decoder=decoder, n=n, batch_size=2)
        expected = [recompute(model, engine.prepare(query).ids, plain) for query in queries]
        standard = engine.predict(queries, replace(plain, drafter="none"))
        for drafter in ("copy", "mixed", "auto"):
            results = engine.predict(queries, replace(plain, drafter=drafter))
            for result, reference_answers, slow in zip(results, expected, standard, strict=True):
                for hypothesis, answer in zip(result.hypotheses, reference_answers, strict=True):
                    bare = [token for token in answer.tokens if token != EOS]
                    assert [engine.tokenizer.tokens.index(token) for token in hypothesis.tokens] == bare
                    assert hypothesis.log_prob == pytest.approx(answer.log_prob, abs=1e-4)
                assert len(result.trace.passes) <= len(slow.trace.passes)
        if decoder == "greedy":
            copied = engine.predict(queries, replace(plain, drafter="copy", drafting="fixed"))
            passes = [sum(len(one.trace.passes) for one in results) for results in (standard, copied)]
            assert passes[0] >= 3 * passes[1]


def test_training_is_run_and_resumed(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="pip install chemspec-smiles[train]")
    from chemspec.data.arrays import Pairs, RaggedArray
    from chemspec.train.recipe import model_recipe
    from chemspec.train.run import train_padded

    rng = np.random.default_rng(0)
    texts = [rng.integers(4, 14, size=rng.integers(3, 9)).tolist() for _ in range(48)]
    Pairs(RaggedArray.pack(texts), RaggedArray.pack(texts)).save(tmp_path / "train.npz")
    tokenizer = Tokenizer((*SPECIALS, *"CNOSPFIBcn"))
    tokenizer.save(tmp_path / "vocab.json")
    settings = TrainSettings(lr=3e-3, tokens=200, steps=8, warmup=2, validate_every=4, keep=1, holdout=16, threads=1)
    out, recipe = tmp_path / "run", replace(model_recipe("retro-50k"), preset="tiny", average_last=1, train=settings)
    train_padded(replace(recipe, train=replace(recipe.train, steps=4)), tmp_path, out)
    folder = train_padded(recipe, tmp_path, out)
    steps = [line.split(",")[0] for line in (out / "log.csv").read_text().splitlines()[1:]]
    assert steps[-1] == "8" and "4" in steps
    assert checkpoint.load(folder).model.config == preset_config("tiny", vocab_size=len(tokenizer))


def test_a_hugging_face_model_answers_as_generate_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="pip install chemspec-smiles[hf]")
    tokenizers = pytest.importorskip("tokenizers")
    import torch

    words = ["<pad>", "</s>", "<unk>", *"CNOcno()=#123[]H@"]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(tmp_path)
    torch.manual_seed(0)
    shape = {"vocab_size": len(words), "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(**shape, decoder_start_token_id=0, tie_word_embeddings=False)
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight.data.normal_()
    model.lm_head.weight.data[:3] = 0  # it writes letters
    model.save_pretrained(tmp_path)
    engine = Engine.load(tmp_path, task="retro", device="cpu")
    ids = torch.tensor([inner.encode("CC(=O)N").ids])
    theirs = model.eval().generate(ids, max_new_tokens=12, do_sample=False, num_beams=1)[0, 1:].tolist()
    (result,) = engine.predict(["CC(=O)N"], DecodeSettings(decoder="greedy", n=1, max_len=12, drafter="copy"))
    theirs = theirs[: theirs.index(1)] if 1 in theirs else theirs
    assert result.status == "ok" and "".join(result.hypotheses[0].tokens) == "".join(words[i] for i in theirs)


@pytest.mark.slow  # a server, a driver and Chromium take five seconds; without a browser `ui` tests the pages
def test_the_app_answers_in_a_browser(tmp_path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "app.py"), "--server.port", "0"]
    command += ["--server.address", "127.0.0.1", "--server.headless", "true", "--server.fileWatcherType", "none"]
    log, environment = tmp_path / "log", {**os.environ, "CHEMSPEC_HOME": str(tmp_path / "home")}
    with log.open("wb") as out, subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out) as server:
        try:
            url = wait_for_address(log, server)
            with playwright.sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
                page = browser.new_page()
                page.set_default_timeout(120_000)
                page.goto(f"{url}/?smi=CC(%3DO)Cl.Nc1ccccc1&task=forward")
                page.get_by_text("CC(=O)Nc1ccccc1").first.wait_for()
                browser.close()
        finally:
            server.terminate()
