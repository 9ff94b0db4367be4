"""Checkpoints that are small, and would take an hour or all memory to build, are refused before anything is built."""

from __future__ import annotations

import io
import pickle
import re
import struct
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.limited import outcome

from chemspec.importers import pickled
from chemspec.model.checkpoint import CheckpointError

HEAD, STOP = b"\x80\x02", b"."
NESTED = b"N" + b"\x85" * 30 + b"".join(b"q%c" % k + b"h%ch%c\x86" % (k, k) for k in range(40))  # doubles each time
ORDERED = b"ccollections\nOrderedDict\n"
PERSON = b"cargparse\nNamespace\n"
LONG = [b"\x8a\x10" + ((2**61 - 1) * k).to_bytes(16, "little") for k in range(5, 1000)]  # all hashes are zero


def text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def storage(key: bytes, count: bytes, kind: bytes = b"FloatStorage") -> bytes:
    return b"(" + text("storage") + b"ctorch\n" + kind + b"\n" + key + text("cpu") + count + b"tQ"


HOSTILE = {
    "a key that doubles": b"}" + NESTED + b"Ns",
    "keys that double": b"}(" + NESTED + b"Nu",
    "a dictionary at once": b"(" + NESTED + b"Nd",
    "a set": b"\x8f(" + NESTED + b"\x90",
    "a frozen set": b"(" + NESTED + b"\x91",
    "a key from the memo": b"}" + NESTED + b"q\xffh\xffNs",
    "a key of an object": PERSON + b")R" + NESTED + b"Ns",
    "keys with one hash": b"}(" + b"".join(one + b"N" for one in LONG) + b"u",
    "an ordered dictionary": ORDERED + b"]](" + NESTED + b"NeaR"[:0] + b"e" + b"\x85R",
    "an ordered dictionary's items": ORDERED + b"]" + NESTED + b"N\x86a\x85R",
    "numbers of an ordered dictionary": ORDERED + b"](" + b"".join(one + b"N\x86" for one in LONG) + b"e\x85R",
    "places in the memo with one hash": b"N" + b"".join(b"p%d\n" % ((2**61 - 1) * k) for k in range(60_000)),
    "the name of a tensor": b"}" + text("model") + storage(NESTED, b"K\x04") + b"s",
    "a tensor as long as a disk": b"}" + text("model") + storage(text("0"), b"\x8a\x06\x00\x00\x00\x00\x00\x10") + b"s",
    "a huge text": b"\x8d" + struct.pack("<Q", 1 << 40),
    "a huge frame": b"\x95" + struct.pack("<Q", 1 << 40) + b"}",
    "a huge buffer": b"\x96" + struct.pack("<Q", 1 << 33),
    "too many operations": b"](" + b"N" * 400_000 + b"e",
    "too many names": b"](" + (PERSON + b"0") * 40_000 + b"e",
    "marks without end": b"(" * 400_000,
    "lists without end": b"]" * 400_000,
    "a buffer": b"\x97",
    "less than it takes": b"}ssss",
}


def zipped(file: Path, pickle_: bytes, *, how: int = zipfile.ZIP_STORED, parts: Iterable[str] = ()) -> Path:
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr("archive/data.pkl", pickle_)
        archive.writestr("archive/version", b"3\n")
        for name in parts:
            archive.writestr(f"archive/data/{name}", b"")
    return file


def legacy(file: Path, pickle_: bytes) -> Path:
    """As torch before 1.6 wrote it: magic number, version, byte order, the parts, names of tensors."""
    facts: list[Any] = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    file.write_bytes(b"".join(pickle.dumps(fact, 2) for fact in facts) + pickle_ + pickle.dumps([], 2))
    return file


def refused(file: Path) -> str:
    """The message with which a file is refused by all that reads it, in a fork with limits."""

    def read() -> None:
        with pytest.raises(CheckpointError) as refusal:
            pickled.read_outline(file)
        assert not pickled.matches(file, lambda _: True)
        with pytest.raises(CheckpointError, match=f"^{re.escape(str(refusal.value))}$"):
            pickled.read_checkpoint(file)
        raise refusal.value

    return outcome(read, CheckpointError, seconds=8, size=600_000_000)


# Both formats are read through the same bounds.
@pytest.mark.parametrize("write", [zipped, pytest.param(legacy, marks=[pytest.mark.slow, pytest.mark.nightly])])
@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_hang_or_swell_is_refused(tmp_path: Path, name: str, write: Callable[..., Path]) -> None:
    file = write(tmp_path / "model.pt", HEAD + HOSTILE[name] + STOP)
    assert "refused" in (told := refused(file)) or "damaged" in told


def test_the_hostile_ones_are_pickles_that_python_would_build() -> None:
    """Their beginnings, at least; or else they might be refused for being damaged alone."""
    for name in ("keys with one hash", "a key that doubles"):
        small = HOSTILE[name].replace(NESTED, b"N\x85")
        assert pickle.loads(HEAD + small + STOP)
        with pytest.raises(pickled.TooLargeError, match="as a key"):
            pickled.Unpickler(io.BytesIO(HEAD + small + STOP)).load()


def test_a_long_line_is_not_read_to_its_end() -> None:
    file = io.BytesIO(HEAD + b"c" + b"x" * 10 * pickled.MAX_LINE + b"\nname\n" + STOP)
    with pytest.raises(pickled.TooLargeError, match="line"):
        pickled.Unpickler(file).load()
    assert file.tell() <= len(HEAD) + 1 + pickled.MAX_LINE


def test_compressed_parts_are_refused_without_unpacking(tmp_path: Path) -> None:
    bomb = HEAD + b"}" + text("model") + text(" " * 90_000_000) + b"s" + STOP
    file = zipped(tmp_path / "model.pt", bomb, how=zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 200_000
    assert "compressed" in refused(file)


def test_a_pickle_of_more_than_the_limit_is_refused(tmp_path: Path) -> None:
    file = zipped(tmp_path / "model.pt", HEAD + text(" " * 101_000_000) + STOP)
    assert "100 MB" in refused(file)


def test_an_archive_whose_list_of_parts_is_long_is_refused(tmp_path: Path) -> None:
    """Long names, so that a few thousand parts do; how many it would be with short ones is the same to the reader."""
    entry = 46 + len("archive/data/") + 1000  # bytes of the list
    below = [f"{number:01000}" for number in range(pickled.MAX_LIST // entry - 1)]
    assert pickled.read_outline(zipped(tmp_path / "below.pt", HEAD + b"}" + STOP, parts=below)) == {}
    above = [f"{number:01000}" for number in range(pickled.MAX_LIST // entry + 1)]
    assert "more parts" in refused(zipped(tmp_path / "above.pt", HEAD + b"}" + STOP, parts=above))


def test_an_archive_of_an_old_kind_is_refused(tmp_path: Path) -> None:
    head = tarfile.TarInfo(pickled.LEGACY.decode("latin-1"))
    file = tmp_path / "model.pt"
    file.write_bytes(head.tobuf(tarfile.GNU_FORMAT, "latin-1").replace(b"ustar  ", b"\0" * 7) + bytes(10_240))
    raw = bytearray(file.read_bytes())
    raw[148:156] = b"        "
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    file.write_bytes(raw)
    assert tarfile.is_tarfile(file) and raw[257:262] != b"ustar"
    assert "not supported" in refused(file)


@pytest.mark.parametrize("kind", ["missing", "folder", "closed"])
def test_whether_a_path_holds_a_model_can_always_be_asked(tmp_path: Path, kind: str, monkeypatch: Any) -> None:
    file = zipped(tmp_path / "model.pt", HEAD + b"}" + STOP)
    if kind == "closed":
        monkeypatch.setattr(Path, "open", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "no")))
    path = {"missing": tmp_path / "none.pt", "folder": tmp_path, "closed": file}[kind]
    assert not pickled.matches(path, lambda parts: bool(parts["model"]))
    assert not pickled.matches(file, lambda _: 1 // 0)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("new", [True, False])
def test_a_checkpoint_as_torch_writes_it_is_read(tmp_path: Path, new: bool) -> None:
    shared = torch.arange(12.0).reshape(3, 4)
    state = OrderedDict((f"layer.{k}.weight", shared[k % 3]) for k in range(2000))
    parts = {"model": state, "t": shared.T, "opt": {"state": {k: {"step": k, 2**45 + k: 1.0} for k in range(2000)}}}
    parts["parameter"] = torch.nn.Parameter(torch.ones(2))
    parts["whole"] = (1, (2, (3, 4)))
    torch.save(parts, tmp_path / "model.pt", _use_new_zipfile_serialization=new)
    assert list(pickled.read_outline(tmp_path / "model.pt")["model"]) == list(state)
    assert pickled.matches(tmp_path / "model.pt", lambda parts: len(parts["model"]) == 2000)
    found = pickled.read_checkpoint(tmp_path / "model.pt")
    assert all(torch.equal(found["model"][name], value) for name, value in state.items())
    assert torch.equal(found["t"], shared.T) and torch.equal(found["parameter"], torch.ones(2))
    assert found["whole"] == (1, (2, (3, 4)))


@pytest.mark.parametrize(("offset", "size", "stride"), [(1, (4,), (1,)), (0, (10**10,), (1,)), (0, (2, 2), (3, 1))])
def test_a_tensor_beyond_its_storage_is_refused(offset: int, size: Any, stride: Any) -> None:
    build = pickled.REBUILD["_rebuild_tensor_v2"]
    kept = torch.arange(4.0)._typed_storage()  # type: ignore[no-untyped-call]
    assert build(kept, 0, (2, 2), (2, 1), False, OrderedDict()).shape == (2, 2)
    with pytest.raises(pickle.UnpicklingError, match="larger than its storage"):
        build(kept, offset, size, stride, False, OrderedDict())
