"""The page of the papers' tables: made of the numbers of `bench papers`, in its marked section alone."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.small_bench import bench_papers, folder_with_drafters, papers_in_small

from chemspec.bench import papers

pytest.importorskip("vl_convert", reason="vl-convert is not installed (extra bench)")
from programs import papers_page


def test_page_and_charts_are_made_of_the_numbers_and_the_rest_of_the_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers_in_small(folder_with_drafters(tmp_path / "models"), monkeypatch)
    bench_papers(tmp_path)
    page = tmp_path / "docs" / "measurements.md"
    page.parent.mkdir()
    page.write_text(f"# Before\n\n{papers_page.BEGIN}\nold\n{papers_page.END}\n\n# After\n", encoding="utf-8")
    papers_page.main(tmp_path / "papers.json", page.parent)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Before\n\n{papers_page.BEGIN}\n## The papers")
    assert text.endswith(f"{papers_page.END}\n\n# After\n")
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "!"))) <= 120
    assert "\nold\n" not in text and "2.37 (A2)" in text and papers.NO_TRUTH in text
    for name in ("forward-times", "retro-times", "learned-times", "latency", "speedups-time", "speedups-passes"):
        assert f"(charts/{name}.svg)" in text
        ElementTree.fromstring((page.parent / "charts" / f"{name}.svg").read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match=papers_page.END):
        papers_page._put(f"{papers_page.BEGIN}\nopen", "new", page)
