"""Energy counters are found, added up and read across their end; where there are none, that is said."""

from __future__ import annotations

from pathlib import Path

from chemspec.system.energy import Meter


def package(home: Path, name: str, used: int, most: int = 1_000_000_000) -> Path:
    folder = home / name
    folder.mkdir(parents=True)
    (folder / "max_energy_range_uj").write_text(f"{most}\n")
    (folder / "energy_uj").write_text(f"{used}\n")
    return folder / "energy_uj"


def test_packages_are_added_up_and_their_parts_are_not(tmp_path: Path) -> None:
    one, other = package(tmp_path, "intel-rapl:0", 5), package(tmp_path, "intel-rapl:1", 7)
    part = package(tmp_path, "intel-rapl:0:0", 0)
    meter = Meter.find(tmp_path)
    assert meter is not None
    before = meter.read()
    one.write_text("3000005")
    other.write_text("1000007")
    part.write_text("900000000")
    assert meter.joules(before) == 4.0


def test_a_counter_that_starts_again_is_read_on(tmp_path: Path) -> None:
    file = package(tmp_path, "intel-rapl:0", 9_000_000, most=10_000_000)
    meter = Meter.find(tmp_path)
    assert meter is not None
    before = meter.read()
    file.write_text("1000000")
    assert meter.joules(before) == 2.0


def test_a_machine_without_counters_has_no_meter(tmp_path: Path) -> None:
    assert Meter.find(tmp_path / "nowhere") is None
    (tmp_path / "intel-rapl:0").mkdir()  # without its files, as inside some containers
    assert Meter.find(tmp_path) is None
