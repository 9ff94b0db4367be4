"""The command line: what scripts rely on, exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from click.testing import Result
from helpers.case_tables import table
from helpers.command_line import call, last, refusal
from helpers.small import QUERIES, tiny_folder
from helpers.thinned import every

from chemspec.cli import show
from chemspec.cli.__main__ import app
from chemspec.data.settings import find_test_file
from chemspec.plugins import DECODERS
from chemspec.system import extras
from chemspec.system.host_check import AllowedHosts
from chemspec.terminal import errors
from chemspec.types import DecodeResult, Hypothesis, result_from_json

pytestmark = pytest.mark.usefixtures("models")
TOP = ["query", "status", "message", "hypotheses", "merged", "exactness", "passes", "tokens", "seconds"]
ANSWER = [
    "smiles",
    "canonical",
    "valid",
    "log_prob",
    "probability",
    "calibrated",
    "model_probability",
    "votes",
    "best_rank",
    "score",
]
FAST = ("--threads", "1", "--max-len", "30", "--drafter", "none")


def predict(*words: object, task: str = "retro", **more: Any) -> Result:
    return call("predict", "--task", task, *FAST, *words, **more)


# --- predict -------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["forward", "retro"])
def test_json_is_one_line_with_the_fields_of_the_contract(task: str) -> None:
    result = predict("CCO", "CC(", "--n", 2, "--no-distinct", "--json", task=task)
    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1
    document = last(result)
    assert list(document) == ["model", "settings", "results"]
    assert document["model"] == task
    assert (document["settings"]["n"], document["settings"]["decoder"]) == (2, "beam")
    fine, bad = document["results"]
    assert list(fine) == list(bad) == TOP
    assert list(fine["hypotheses"][0]) == ANSWER
    assert (len(fine["hypotheses"]), fine["status"], bad["status"]) == (2, "ok", "invalid")
    assert bad["hypotheses"] == [] and bad["exactness"] is None
    assert fine["exactness"] in ("exact to the last bit", "exact up to ties")
    assert "character 3" in bad["message"]


def test_a_text_asks_with_its_options_and_what_is_given_stays() -> None:
    text = "chemspec:predict?task=retro&smi=CCO&n=2&max_len=25&drafter=none"
    settings = last(call("predict", text, "--threads", "1", "--json"))["settings"]
    assert [settings[name] for name in ("n", "max_len", "drafter", "decoder")] == [2, 25, "none", "beam"]
    assert last(call("predict", text, "--threads", "1", "-n", "3", "--json"))["settings"]["n"] == 3


def test_exit_code_0_where_every_query_is_answered() -> None:
    result = predict(*QUERIES)
    assert result.exit_code == 0
    assert result.stdout.count(" ms; standard decoding, without drafts\n") == len(QUERIES)
    total = re.search(rf"^{len(QUERIES)} queries: (\d+) tokens in (\d+) passes$", result.stdout, flags=re.MULTILINE)
    assert total and int(total[2]) <= int(total[1])  # fewer where a wider beam goes on from the narrower one's cache


def test_beams_list_different_molecules_unless_told_otherwise() -> None:
    def chosen(*words: object) -> bool:
        return bool(last(predict("CCO", "--n", 2, "--json", *words))["settings"]["distinct"])

    assert chosen() and chosen("--decoder", "beam") and chosen("--distinct", "--rules", "onmt")
    plain = ("--no-distinct",), ("--n", 1), ("--decoder", "sample"), ("--rules", "onmt"), ("--length-penalty", 1)
    assert not any(chosen(*words) for words in plain)


def test_draft_sizes_reach_the_drafter_and_those_without_effect_are_named() -> None:
    sizes = ["--draft-length", "4", "--draft-count", "2", "--dilation", "1"]
    done = predict("CCO", "--n", 1, "--drafter", "windows", *sizes, "--json")
    settings = last(done)["settings"]
    assert (settings["draft_length"], settings["draft_count"], settings["dilation"]) == (4, 2, 1)
    assert done.stderr == ""
    done = predict("CCO", "--n", 1, "--drafter", "copy", "--draft-count", 2, "--dilation", 1)
    assert done.stderr == "note: --dilation has no effect with the drafter copy\n"
    done = predict("CCO", "--n", 1, "--draft-length", 4)
    assert done.stderr == "note: --draft-length has no effect with the drafter none\n"
    assert predict("CCO", "--draft-length", -1).exit_code == 2


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--temperature", 2), "the decoder beam"),
        (("--top-p", 0.5), "the decoder beam"),
        (("--seed", 4), "the decoder beam and augment 1"),
        (("--tau", 3), "beta 1"),
        (("--length-penalty", 1, "--decoder", "sample"), "the decoder sample"),
    ],
)
def test_options_that_the_decoder_does_not_read_are_named(words: tuple[object, ...], cause: str) -> None:
    assert predict("CCO", "--n", 2, *words).stderr == f"note: {words[0]} has no effect with {cause}\n"
    if words[0] in ("--temperature", "--top-p", "--seed"):
        assert not predict("CCO", "--n", 2, *words, "--decoder", "sample").stderr


@pytest.mark.parametrize("query", ["", "  ", "CC(", "c1ccccc", "C(C)(C)(C)(C)C", "[Uus]", "C" * 2000])
def test_exit_code_1_and_a_message_where_one_is_not(query: str) -> None:
    result = predict("CCO", query)
    assert result.exit_code == 1
    assert "answer" in result.stdout


def test_one_answer_is_greedy_and_several_are_a_beam() -> None:
    for n, decoder in ((1, "greedy"), (3, "beam")):
        assert last(predict("CCO", "--n", n, "--json"))["settings"]["decoder"] == decoder
    greedy = last(predict("CCO", "--n", 3, "--decoder", "greedy", "--json"))
    assert (greedy["settings"]["n"], len(greedy["results"][0]["hypotheses"])) == (1, 1)


@pytest.mark.parametrize(("words", "query"), [(("--task", "forward"), "CN.C"), (("--model", "retro"), "CNC")])
def test_a_table_is_read_as_the_task_or_the_model_wants_it(words: tuple[str, ...], query: str) -> None:
    Path("in.csv").write_text("id,reactants,product\n1,CN.C,CNC\n")
    result = call("predict", "in.csv", *words, *FAST, "--n", 1, "--json")
    assert [one["query"] for one in last(result)["results"]] == [query]
    assert "in.csv: the queries are read from" in result.stderr


def test_a_long_answer_stays_on_one_line_in_a_pipe() -> None:
    result = predict("C" * 150 + "O", "--max-len", 200, "--n", 1)
    assert "C" * 150 + "O" in result.stdout.split("\n")


@pytest.mark.parametrize("words", [(), ("-",)])
def test_queries_come_from_standard_input_of_any_encoding(words: tuple[str, ...]) -> None:
    result = predict(*words, "--json", stdin=b"CCO\r\nCC name\n\nC \xe9\nC\xe2\x88\x92C\n")
    found = [(item["query"], item["status"]) for item in last(result)["results"]]
    assert found[0] == ("CCO", "ok") and found[1] == ("CC name", "ok")
    assert [status for _, status in found[-2:]] == ["ok", "ok"]


@pytest.mark.parametrize(("second", "note"), [("OCC", "(as 1, written differently)"), ("CCO", "(as 1)")])
def test_another_text_of_a_molecule_and_the_same_one_again_are_told_apart(
    second: str, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[dict[str, Any]] = []
    monkeypatch.setattr(show.console, "print_rows", lambda shown, **_: rows.extend(shown))
    answers = tuple(Hypothesis(text, "CCO", True, tuple(text), (), -1.0, 0.4, 0.4) for text in ("CCO", second))
    show.print_result(DecodeResult("CC", "ok", "", answers))
    assert [str(row["answer"]) for row in rows] == ["CCO", f"CCO {note}"]


def test_queries_come_from_a_file_and_its_column() -> None:
    Path("q.csv").write_text("id,mol\n1,CCO\n2,CC\n")
    assert "Choose one with --column" in predict("q.csv").stderr
    result = predict("q.csv", "--column", "mol", "--json")
    assert [item["query"] for item in last(result)["results"]] == ["CCO", "CC"]


def test_the_trace_holds_full_results() -> None:
    predict("CCO", "CC(", "--trace", "t.jsonl")
    one, two = map(result_from_json, Path("t.jsonl").read_text().split("\n")[:-1])
    assert (one.query, two.status) == ("CCO", "invalid")
    assert one.trace.passes


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_answers_go_to_a_file_and_totals_to_the_screen(ending: str) -> None:
    Path("q.smi").write_text("\n".join([*QUERIES, "CC("]))
    result = predict("q.smi", "--out", f"o.{ending}", "--n", 2, "--json")
    assert result.exit_code == 1
    assert last(result)["counts"] == {"ok": len(QUERIES), "invalid": 1}
    assert Path(f"o.{ending}").is_file()
    assert re.search(rf": 1 invalid, {len(QUERIES)} ok; [\d,]+ tokens in [\d,]+ passes\n", result.stderr)


def test_a_run_is_resumed_and_another_one_refused_like_its_own_input() -> None:
    Path("q.csv").write_text("\n".join(["smiles", *QUERIES]))
    words = ("predict", "q.csv", "-t", "retro", "--n", 2, *FAST, "--out")
    assert call(*words, "o.csv").exit_code == 0
    whole = Path("o.csv").read_bytes()
    Path("o.csv").write_bytes(whole[: len(whole) // 2])
    assert call(*words, "o.csv").exit_code == 0
    assert Path("o.csv").read_bytes().count(b"\n") == whole.count(b"\n")
    assert "n 2 instead of 3" in refusal(*words, "o.csv", "--n", 3)
    refusal(*words, "q.csv")
    assert Path("q.csv").read_text().startswith("smiles\n")


def test_a_folder_and_files_of_other_formats_are_refused_by_name() -> None:
    Path("some").mkdir()
    Path("a.json").write_text("{}")
    Path("picture").write_bytes(b"\x89PNG\0\n")
    told = {"some": "some is a folder", "a.json": "end in .json are not read", "picture": "not a text"}
    for given, part in told.items():
        assert part in refusal("predict", given, "-t", "retro")


def test_every_reaction_of_a_file_is_checked() -> None:
    Path("a.smi").write_text("CN.C>>CNC one\nCCO>>C(\n\nCCO.CC(=O)O>>CCOC(C)=O\n")
    result = call("check", "a.smi", "--json", "--threads", 1)
    assert result.exit_code == 1
    found = [(one["task"], one["expected"]) for one in last(result)["checks"]]
    assert found == [("forward", "CNC"), ("retro", "CN.C"), ("forward", "CCOC(C)=O"), ("retro", "CCO.CC(=O)O")]
    assert "CCO>>C(: this reaction cannot be read" in result.stderr
    Path("b.smi").write_text("CN.C>>\nCNC\n")  # broken at its arrow
    assert len(last(call("check", "b.smi", "--json", "--threads", 1))["checks"]) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /dev/full, nor such a pipe")
@pytest.mark.parametrize(
    "given", every(3, ["predict CCO CCN -n 3 --max-len 30", "predict CCO --json", "race CCO -o r.svg"])
)  # each is a process
def test_a_reader_that_leaves_is_no_failure(home: Path, given: str) -> None:
    words = [sys.executable, "-m", "chemspec.cli", *given.split(), "-t", "retro", "--threads", "1", "--drafter", "none"]
    environment = {**os.environ, "CHEMSPEC_MODELS": str(home), "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told.split()) == (0, [b"r.svg"] if "r.svg" in given else [])
    assert Path("r.svg").exists() is ("r.svg" in given)


# --- what cannot be done -------------------------------------------------------------------------


FILES = {"in.smi": "CCO\n", "in.csv": "smiles\nCCO\n", "empty.smi": "", "both.csv": "product,reactants\nCNC,CN.C\n"}
FILES |= {"broken/config.json": "{", "head.csv": "smiles\n"}


def refuse(*_: object) -> None:
    raise ValueError("there is no cluster")


@pytest.mark.parametrize(("words", "part"), table("cli/refused_options"))
def test_exit_code_2_and_a_message(
    words: tuple[str, ...], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started or written."""
    if "--ray" in words:
        if not extras.is_installed("ray"):
            pytest.skip("the extra ray is not installed")
        monkeypatch.setattr("chemspec.cluster.engines.connect_cluster", refuse)
    monkeypatch.delenv("CHEMSPEC_DATA", raising=False)
    if words[0] == "precedents":
        monkeypatch.setenv("CHEMSPEC_PRECEDENTS", str(tmp_path / "none"))
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    told = refusal(*words)
    if "of the extra train is not installed" in told:
        pytest.skip("the extra train is not installed")
    assert part in told
    assert {file.relative_to(tmp_path).as_posix() for file in tmp_path.rglob("*")} == {*FILES, "broken"}


@pytest.mark.parametrize("decoder", [spec.name for spec in DECODERS.values() if spec.guarantee == "relaxed"])
def test_relaxed_decoders_must_be_asked_for(decoder: str) -> None:
    assert "add --relaxed" in refusal("predict", "CCO", "-t", "retro", "--decoder", decoder)
    allowed = predict("CCO", "--decoder", decoder, "--relaxed", "--json")
    assert allowed.exit_code == 0
    assert last(allowed)["settings"]["decoder"] == decoder


# --- the other commands --------------------------------------------------------------------------


def test_models_lists_them_and_a_broken_one_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = last(call("models", "--json"))["models"]
    assert [(row["name"], row["task"]) for row in rows] == [(task, task) for task in ("forward", "reagents", "retro")]
    tiny_folder(tmp_path / "m" / "good")
    (tmp_path / "m" / "bad").mkdir()
    (tmp_path / "m" / "bad" / "config.json").write_text("{")
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "m"))
    rows = last(call("models", "--json"))["models"]
    assert [row["task"] for row in rows] == ["unusable", "retro"]
    assert "good" in call("models").stdout
    monkeypatch.setenv("CHEMSPEC_MODELS", str(tmp_path / "none"))
    assert last(call("models", "--json")) == {"models": []}


def test_check_asks_both_models_about_a_reaction() -> None:
    asked = call("check", "CC(=O)Cl.Nc1ccccc1>ClCCl>CC(=O)Nc1ccccc1", "--n", 3, "--json")
    forward, retro = last(asked)["checks"]
    assert asked.exit_code == (0 if forward["agrees"] or retro["agrees"] else 1)
    assert (forward["task"], forward["expected"]) == ("forward", "CC(=O)Nc1ccccc1")
    assert (retro["query"], retro["expected"]) == ("CC(=O)Nc1ccccc1", "CC(=O)Cl.Nc1ccccc1.ClCCl")
    assert len(forward["result"]["hypotheses"]) <= 3 and forward["sentence"]
    Path("r.smi").write_text("CCO>>CCBr")
    wrong = call("check", "r.smi", "-t", "forward", "--n", 2)
    assert wrong.exit_code == 1
    assert wrong.stdout.startswith("forward: ") and "cannot supply 1 Br" in wrong.stdout


def test_evaluate_scores_a_file_and_goes_on_where_it_stopped() -> None:
    lines = ["product,reactants,reaction_class", "CCO,CCBr.O,1", "CC(=O)NC,CC(=O)O.CN,2", "CC(,C,2"]
    Path("t.csv").write_text("\n".join(lines))
    words = ("evaluate", "-m", "retro", "--file", "t.csv", "--n", 3, "--out", "p.jsonl", *FAST)
    report = last(call(*words, "--json"))
    assert (report["reactions"], report["refused"], list(report["top"])) == (3, 1, ["1", "2", "3"])
    before = Path("p.jsonl").read_bytes()
    assert last(call(*words, "--json")) == report
    assert Path("p.jsonl").read_bytes() == before
    assert "top-1" in call(*words).stdout
    listed = last(call(*words[: -len(FAST) - 2], *FAST, "--distinct", "--keep", "--json"))
    assert listed["settings"]["distinct"] and "-distinct" in listed["predictions"]
    assert (listed["invalid"]["value"], listed["repeated"]["value"]) == (0, 0)
    Path("t.csv").rename("heldout.csv")
    told = refusal("evaluate", "-t", "retro", "--file", "heldout.csv", *FAST, "--distinct", "--keep")
    assert "plain answers in fp32" in told
    assert "is a forward model" in refusal("evaluate", "-t", "retro", "-m", "forward", "--file", "heldout.csv")


def test_help_shows_the_commands_in_order() -> None:
    def commands(*words: str) -> list[str]:
        return re.findall(r"^│ ([a-z][a-z-]*) ", call(*words, "--help").stdout, flags=re.MULTILINE)

    answers = ["predict", "race", "check", "verify", "plan", "make", "models", "import", "app", "serve", "config"]
    assert commands() == [*answers, "precedents", "evaluate", "data", "bench", "train"]
    assert commands("bench") == ["drafters", "draft-length", "papers"]
    drafters = ["distil", "calibrate", "install-drafter"]
    assert commands("train") == ["average", "calibration", "fine-tune", *drafters]


def test_config_shows_where_things_are_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_API_KEY", "hunter2")
    monkeypatch.setenv("CHEMSPEC_HOME", "/somewhere")
    shown = json.loads(call("config", "--json").stdout)
    assert shown["folders"]["home"] == "/somewhere" and shown["variables"]["CHEMSPEC_API_KEY"] == "(set)"
    assert shown["program"]["kernel"] and set(shown["extras"]) >= {"app", "torch", "names"}
    text = call("config").stdout
    assert "hunter2" not in text and "/somewhere" in text


def test_the_options_of_predict_stand_in_groups() -> None:
    titles = re.findall(r"^╭─ (.*?) ─", call("predict", "--help").stdout, flags=re.MULTILINE)
    assert titles == ["Arguments", "Options", "Query source", "Decode settings", "Hardware", "Output files", "Cluster"]


def test_rows_go_to_standard_output_as_lines_of_json(tmp_path: Path) -> None:
    table = tmp_path / "q.csv"
    table.write_text("smiles,note\nCCO,one\nC(,two\n")
    done = call("predict", str(table), "--task", "retro", "-n", "2", *FAST, "-o", "-")
    assert done.exit_code == 1
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["query"], row["status"]) for row in rows] == [("CCO", "ok"), ("C(", "invalid")]
    assert [row["columns"] for row in rows] == [{"note": "one"}, {"note": "two"}]
    assert "1 invalid, 1 ok" in done.stderr
    assert "leave out --json" in refusal("predict", "CCO", "--task", "retro", *FAST, "-o", "-", "--json")


def test_the_help_of_verify_names_its_own_default_model() -> None:
    words = call("verify", "--help").stdout.replace("│", " ").split()
    assert "default: the installed one that wrote the rows." in " ".join(words)


def test_help_fits_a_screen_and_the_version_a_line() -> None:
    lines = call("--help").stdout.rstrip().split("\n")
    assert call("--version").stdout.count("\n") == 1
    assert len(lines) <= 32 and max(map(len, lines)) <= 80
    assert sum("\N{BOX DRAWINGS LIGHT VERTICAL}" in line for line in lines) <= 20  # one line a command
    assert "Convert another program's checkpoint to a model folder. " in "\n".join(lines)


def test_every_option_and_argument_has_a_help_text_that_is_a_sentence() -> None:
    def walk(command: Any, path: str = "") -> Iterator[tuple[str, str]]:
        yield from ((f"{path} {option.name}", option.help or "") for option in command.params)
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")

    texts = dict(walk(typer.main.get_command(app)))
    assert len(texts) > 250 and "predict draft_length" in "".join(texts)
    assert [name for name, text in texts.items() if len(text) < 10 or not text.endswith(".")] == []


def test_the_data_folder_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHEMSPEC_DATA", "elsewhere")
    assert "elsewhere/retro_test.csv.gz" in refusal("evaluate", "-t", "retro")
    assert find_test_file(None, "retro") == Path("elsewhere/retro_test.csv.gz")  # from Python


def test_the_app_listens_on_this_machine_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("streamlit")
    from chemspec.ui.launch import server

    started: list[tuple[AllowedHosts, dict[str, object]]] = []
    monkeypatch.setattr(server, "run_server", lambda allowed, **options: started.append((allowed, options)))
    monkeypatch.setattr(os, "chdir", lambda _: None)
    call("app", "--headless")
    call("app", "--host", "0.0.0.0", "--allowed-host", "a.example", "--allowed-host", "b.example", "--watch")
    assert [options["host"] for _, options in started] == ["127.0.0.1", "0.0.0.0"]
    assert [options["watch"] for _, options in started] == [False, True]
    assert started[1][0] == AllowedHosts.of("0.0.0.0", ["a.example", "b.example"])


def test_train_lists_its_recipes() -> None:
    listed = call("train", "--list").stdout
    assert "retro-50k" in listed and max(map(len, listed.splitlines())) <= 120


# --- as a process --------------------------------------------------------------------------------

CLI = (sys.executable, "-m", "chemspec.cli")


def heed_ctrl_c() -> None:
    """A shell starts what it sends to the background with Ctrl-C ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_with_130_and_the_run_can_go_on(tmp_path: Path) -> None:
    Path("q.smi").write_text("\n".join(QUERIES * 4000))
    words = [*CLI, "predict", "q.smi", "-t", "retro", "--out", "o.csv", "--batch-size", "1", *FAST]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}, preexec_fn=heed_ctrl_c
    ) as run:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and run.poll() is None:
            if Path("o.csv").exists() and Path("o.csv").read_bytes().count(b"\n") > 8:
                break
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert b"interrupted" in said
    assert b"Traceback" not in said
    with Path("o.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert 8 <= len(rows) < len(QUERIES) * 4000
    assert [row["query"] for row in rows] == (QUERIES * 4000)[: len(rows)]


def test_ctrl_c_is_repeated_though_it_interrupts_its_own_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bool] = []

    def start(_: threading.Timer) -> None:
        started.append(True)
        if len(started) == 1:  # a busy machine: the timer ends first
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Timer, "start", start)
    errors.repeat_interrupt(SimpleNamespace(exc_type=KeyboardInterrupt))
    assert len(started) == 2


def test_ctrl_c_in_a_destructor_is_not_lost(tmp_path: Path) -> None:
    code = """
import os, signal, sys
from chemspec.cli.__main__ import app
from chemspec.model.session import Session
def end(self, left=[3]):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGINT)
Session.__del__ = end
app(sys.argv[1:])
"""
    Path("q.smi").write_text("\n".join("C" * length + "N" for length in range(1, 400)))
    words = ["predict", "q.smi", "-t", "retro", "--out", "o.csv", "--batch-size", "1", *FAST]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, timeout=60, preexec_fn=heed_ctrl_c)
    assert done.returncode == 130, done.stderr
    assert b"interrupted" in done.stderr and b"Traceback" not in done.stderr
