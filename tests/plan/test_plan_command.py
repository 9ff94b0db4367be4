"""`chemspec plan`: text, files, exit codes, clear messages."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("syntheseus")
pytest.importorskip("apted")

from helpers.toy import ACID_AMIDE, AMIDE, BOUGHT, ESTER_AMIDE, Toy, retro
from typer.testing import CliRunner, Result

from chemspec.cli import __main__ as cli
from chemspec.plan import expand, export, search, workers
from chemspec.plan.question import plan_question
from chemspec.system import extras


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(expand, "load_fastest", lambda *_, **__: retro())
    monkeypatch.setattr(expand, "load_engines", lambda tasks, **_: dict.fromkeys(tasks, Toy({})))
    monkeypatch.setenv("CHEMSPEC_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.smi").write_text("\n".join(BOUGHT))

    def run(*words: object, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli.app, ["plan", "--stock", str(tmp_path / "mine.smi"), *map(str, words)], stdin)

    return run


def test_routes_are_shown_and_written(call: Any, tmp_path: Path) -> None:
    endings = (".json", ".md", ".svg", ".png", ".cdxml", ".pdf", ".postcard.svg", ".postcard.png")
    files = [tmp_path / f"route{ending}" for ending in endings]
    done = call(AMIDE, *(word for file in files for word in ("-o", file)))
    assert done.exit_code == 0, done.output
    assert "routes from stock" in done.output and "mine.smi" in done.output and "route 1: 3 steps" in done.output
    assert [f"{file} is written" in " ".join(done.output.split()) for file in files] == [True] * len(files)
    tree = json.loads(files[0].read_text())
    assert tree["routes"][0]["children"][0]["type"] == "reaction"
    assert files[1].read_text().startswith("# Routes to") and files[2].read_text().startswith("<svg")
    assert files[3].read_bytes().startswith(b"\x89PNG") and "<scheme" in files[4].read_text()
    assert files[5].read_bytes().startswith(b"%PDF") and files[7].read_bytes().startswith(b"\x89PNG")
    text = plan_question(tree["target"])
    assert text in "".join(re.findall(r"<text[^>]*>([^<]*)</text>", files[6].read_text())), "without the file of stock"


def test_a_library_of_targets_is_a_table_and_a_diagram_of_what_they_share(call: Any, tmp_path: Path) -> None:
    (tmp_path / "targets.smi").write_text(
        "\n".join((ESTER_AMIDE, AMIDE.replace("(=O)", "(=S)"), ACID_AMIDE, ACID_AMIDE))
    )
    files = [tmp_path / name for name in ("table.csv", "all.jsonl", "shared.svg", "shared.png", "one.cdxml")]
    done = call(tmp_path / "targets.smi", *(word for file in files for word in ("-o", file)))
    assert done.exit_code == 1, done.output
    assert all(file.exists() for file in files) and not [*tmp_path.glob("*.partial*")]
    first, second, third, again = csv.DictReader(files[0].read_text().splitlines())
    best = json.loads(files[1].read_text().splitlines()[0])["routes"][0]
    assert third == again and (first["status"], first["steps"], third["steps"]) == ("solved", "3", "4")
    assert float(first["weakest_step"]) == pytest.approx(best["scores"]["weakest_step"], abs=1e-4)
    shared = "COC(=O)c1ccc([N+](=O)[O-])cc1 (2) COC(=O)c1ccc(N)cc1 (2)"
    assert first["shared_intermediates"] == third["shared_intermediates"] == shared, "a repeated target counts once"
    assert set(first["building_blocks"].split()) <= set(BOUGHT) and first["not_in_stock"] == ""
    assert second["status"] != "solved" and second["message"] and second["target"] != first["target"]
    words = re.findall(r"<text[^>]*>([^<]*)</text>", files[2].read_text())
    assert "in 2 routes" in words and "with 1 more before" in words and {"row 1, 3 steps", "row 3, 4 steps"} <= {*words}
    assert files[3].read_bytes().startswith(b"\x89PNG") and "<scheme" in files[4].read_text()


def test_a_library_that_shares_nothing_has_no_diagram_and_an_interrupted_one_goes_on(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = call(AMIDE, "CCO", "-o", tmp_path / "shared.svg")
    assert "is not written: no intermediate is in" in " ".join(done.output.split()) and not [*tmp_path.glob("shared*")]
    plan = search.plan
    planned: list[str] = []

    def once(target: str, *more: Any) -> Any:
        if len(planned) == 1:
            raise OSError("killed")
        planned.append(target)
        return plan(target, *more)

    monkeypatch.setattr(search, "plan", once)
    call(ESTER_AMIDE, ACID_AMIDE, "-o", tmp_path / "shared.svg")
    monkeypatch.setattr(search, "plan", lambda target, *more: planned.append(target) or plan(target, *more))
    call(ESTER_AMIDE, ACID_AMIDE, "-o", tmp_path / "shared.svg")
    assert planned == [ESTER_AMIDE, ACID_AMIDE] and [*tmp_path.glob("shared*")] == [tmp_path / "shared.svg"]


@pytest.mark.parametrize(("name", "content"), [("a.json", "[]"), ("a.md", ""), ("a.svg", None)])
def test_no_plan_is_an_empty_list_and_no_picture(tmp_path: Path, name: str, content: str | None) -> None:
    export.write_plans(tmp_path / name, [])
    assert (tmp_path / name).exists() is (content is not None)
    assert content is None or (tmp_path / name).read_text() == content


def test_each_plan_is_rendered_once(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the files are those of all plans."""
    rendered: list[str] = []
    for name in ("plan_document", "plan_to_markdown"):
        render = getattr(export, name)
        monkeypatch.setattr(
            export, name, lambda *entry, name=name, render=render: rendered.append(name) or render(*entry)
        )
    words = [word for ending in (".json", ".md") for word in ("-o", tmp_path / f"plans{ending}")]
    done = call(AMIDE, "CC(=O)Nc1ccccc1", "CCO", *words, "--expansions", "1", "--json")
    assert sorted(rendered) == ["plan_document"] * 3 + ["plan_to_markdown"] * 3
    text = (tmp_path / "plans.json").read_text()
    assert json.loads(text) == json.loads(done.stdout.splitlines()[-1])["plans"]
    assert text == json.dumps(json.loads(text), indent=1)


def test_a_table_of_targets_needs_no_document_and_evidence_of_the_routes_shown(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[int] = []
    monkeypatch.setattr("chemspec.cli.plan.MAX_SHOWN", 1)
    for name in ("plan_document", "route_document"):
        monkeypatch.setattr(f"chemspec.plan.routes.{name}", None)
    monkeypatch.setattr("chemspec.plan.routes.find_evidence", lambda routes, _: listed.append(len(routes)) or {})
    done = call(AMIDE, AMIDE, "-o", tmp_path / "table.csv")
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 3
    assert listed == [1, 1]


def test_what_is_printed_is_the_best_of_each_group_with_its_evidence(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routes that were printed without evidence read "patent reactions: 0"."""
    listed: list[str] = []
    monkeypatch.setattr("chemspec.cli.plan.MAX_SHOWN", 2)
    monkeypatch.setattr(
        "chemspec.plan.routes.find_evidence", lambda routes, _: listed.extend(one.summary for one in routes) or {}
    )
    monkeypatch.setattr("chemspec.plan.routes.MAX_GROUP_DISTANCE", -1.0)  # each route is a group of its own
    printed = re.findall(r"(?m)^route (\d+): (.*)$", call(AMIDE).output)
    assert printed == [("1", listed[0]), ("2", listed[1])]
    listed.clear()
    monkeypatch.setattr("chemspec.plan.routes.MAX_GROUP_DISTANCE", 9.0)  # all are variants of one
    printed = re.findall(r"(?m)^route 1(?:, variant 2)?: (.*)$", call(AMIDE).output)
    assert len(printed) == 2 and printed == listed


def test_a_target_may_be_a_name(call: Any, tmp_path: Path) -> None:
    done = call("aspirin", "--json", "--expansions", "1")
    assert "aspirin: CC(=O)Oc1ccccc1C(=O)O" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["plans"][0]["target"] == "CC(=O)Oc1ccccc1C(=O)O"
    (tmp_path / "targets.csv").write_text("reactants,product\nC,aspirin\n")
    done = call(tmp_path / "targets.csv", "--json", "--expansions", "1")
    assert json.loads(done.stdout.splitlines()[-1])["plans"][0]["target"] == "CC(=O)Oc1ccccc1C(=O)O"


def test_a_text_asks_with_its_options_and_what_is_given_stays(call: Any) -> None:
    text = f"chemspec:plan?smi={AMIDE}&expansions=1&n=3&order=steps"
    done = call(text)
    assert "1 molecule expanded" in done.output
    assert "1 molecule expanded" not in call(text, "--expansions", "9").output
    done = call("chemspec:predict?smi=CCO")
    assert done.exit_code == 2 and "chemspec predict" in done.output


def test_a_duration_limits_the_whole_plan(call: Any) -> None:
    assert "deadline of 1e-06 s" in call(AMIDE, "--within", "0.001ms").output
    assert call(AMIDE, "--within", "5min").exit_code == 0
    assert call(AMIDE, "--within", "soon").exit_code == 2


def test_several_targets_from_a_file_as_json(call: Any, tmp_path: Path) -> None:
    (tmp_path / "targets.smi").write_text(f"{AMIDE}\nCCCCCC\n")
    done = call(tmp_path / "targets.smi", "--json")
    assert done.exit_code == 1  # hexane has no route
    plans = json.loads(done.output.splitlines()[-1])["plans"]
    assert [one["status"] for one in plans] == ["solved", "open"]
    assert plans[0]["counts"]["molecules"] > 0
    done = call(tmp_path / "targets.smi", "CCO")
    assert done.exit_code == 2 and "give one file, or SMILES" in " ".join(done.output.split())


def test_targets_from_standard_input(call: Any) -> None:
    done = call("-", "--json", stdin=f"{AMIDE}\n\n")
    assert [one["status"] for one in json.loads(done.stdout.splitlines()[-1])["plans"]] == ["solved"]
    done = call("-", stdin="\n")
    assert done.exit_code == 2 and "no target in standard input" in done.output


def test_without_a_forward_model_it_says_how_to_go_on(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expand, "load_engines", lambda *_, **__: {})
    done = call(AMIDE)
    assert done.exit_code == 2 and "--no-check" in done.output
    done = call(AMIDE, "--no-check")
    assert done.exit_code == 0 and " from the cache); 0 steps checked" in done.output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-o", "route.doc"], ".json, .jsonl, .csv, .md, .svg, .png, .cdxml, .pdf"),
        (["--stock", "nowhere.smi"], "nowhere.smi"),
        (["--expansions", "0"], "expansions is 0"),
    ],
)
def test_what_cannot_be_done_is_said(call: Any, words: list[str], told: str) -> None:
    done = call(AMIDE, *words)
    assert done.exit_code == 2 and told in done.output


def test_files_are_there_if_the_screen_cannot_be_written(call: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("chemspec.cli.plan.print_plan", Mock(side_effect=OSError))
    assert call(AMIDE, "-o", tmp_path / "a.md").exit_code == 2
    assert (tmp_path / "a.md").read_text().startswith("# Routes to")


def test_constraints_are_options(call: Any) -> None:
    done = call(AMIDE, "--through", "CNC(=O)c1ccc(N)cc1", "--avoid", "[OH-]", "--json")
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout.splitlines()[-1])["plans"]
    assert found["routes"] and all("CNC(=O)c1ccc(N)cc1" in json.dumps(route) for route in found["routes"])
    done = call(AMIDE, "--through", "hexane")
    assert done.exit_code == 1 and "no route contains CCCCCC" in " ".join(done.output.split())


def test_without_the_extra_it_says_how_to_get_it(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "syntheseus")
    done = call(AMIDE)
    assert done.exit_code == 2 and "pip install 'chemspec-smiles[plan]'" in done.output


TARGETS = (AMIDE, "CC(=O)Nc1ccccc1", "CCO")


@pytest.mark.parametrize("ending", [".json", ".jsonl", ".md"])
def test_a_killed_list_of_targets_goes_on_and_loses_nothing(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    out, once = tmp_path / f"plans{ending}", tmp_path / f"once{ending}"
    words = ("--expansions", "2")
    call(*TARGETS, "-o", once, *words)
    plan = search.plan
    planned: list[str] = []

    def die(target: str, *more: Any) -> Any:
        if len(planned) == 2:
            raise OSError("killed")
        planned.append(target)
        return plan(target, *more)

    monkeypatch.setattr(search, "plan", die)
    assert call(*TARGETS, "-o", out, *words).exit_code == 2
    monkeypatch.setattr(search, "plan", lambda target, *more: planned.append(target) or plan(target, *more))
    done = call(*TARGETS, "-o", out, *words)
    assert planned == [*TARGETS] and "2 of 3 targets are planned already" in done.output
    assert facts(out) == facts(once) and not list(tmp_path.glob("*.partial*"))
    again = call(*TARGETS, "-o", out, *words)
    assert planned == [*TARGETS], "nothing that is finished is planned again, or replaced"
    assert ending == ".jsonl" or (again.exit_code == 2 and "is complete" in again.output)
    other = call("CCN", *TARGETS, "-o", out, *words)
    assert other.exit_code == 2 and facts(out) == facts(once)


def facts(file: Path) -> Any:
    """What a file says of its plans, without the time that they took."""
    if file.suffix == ".md":
        return re.sub(r"[0-9.]+ s;", "", file.read_text())
    plans = [json.loads(line) for line in file.read_text().splitlines()] if file.suffix == ".jsonl" else None
    return [(entry["target"], entry["status"], entry["routes"]) for entry in plans or json.loads(file.read_text())]


@pytest.mark.parametrize(("targets", "wanted", "most"), [(1, 0, 1), (3, 0, 1), (3, 2, 2), (3, 9, 3), (10**6, 0, 10**6)])
def test_processes_fit_the_number_of_targets(targets: int, wanted: int, most: int) -> None:
    assert 1 <= workers.choose_workers(targets, wanted) <= most


def test_a_file_of_lines_that_nobody_knows_is_refused_and_kept(call: Any, tmp_path: Path) -> None:
    out = tmp_path / "plans.jsonl"
    out.write_text("precious\n")
    refused = call(*TARGETS, "-o", out)
    assert refused.exit_code == 2 and "settings are unknown" in " ".join(refused.output.split())
    assert out.read_text() == "precious\n"
