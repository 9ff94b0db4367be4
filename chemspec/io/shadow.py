"""Shadow measurement: a fraction of the questions is decoded again without drafts, when nothing else waits.

So a service, or the app, measures on its own questions what drafts gain, and whether they ever change an answer. Counts
of the day are stored without molecules. An answer that differs is stored with all that is needed to repeat it, as a
row with a receipt that `chemspec verify` reads, in a file that only its owner can read and that stops growing.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import msgspec

from chemspec.io.receipts import TOLERANCES, add_receipt, describe_difference
from chemspec.io.writers import result_document, settings_stamp
from chemspec.metrics import count_savings
from chemspec.settings import DecodeSettings
from chemspec.system.files import make_private_folder, open_private, write_text_atomic
from chemspec.types import DecodeResult

if TYPE_CHECKING:  # slow imports
    from chemspec.engine.engine import Engine, PreparedQuery

LOG = logging.getLogger(__name__)
DIFFERENCES_FILE = "shadow-differences.jsonl"
LIMIT = 1_000_000  # bytes of that file
MOST_PENDING = 64  # questions that wait for their repetition; the oldest ones are dropped
MOST_TRIES = 5  # interruptions after which a question is dropped


@dataclass(frozen=True)
class ShadowCounts:
    """Counts of one day."""

    day: str  # date as YYYY-MM-DD
    questions: int = 0  # number of questions decoded again
    differ: int = 0  # number of these whose answers differ
    tokens: int = 0  # as `passes`, of the drafted searches
    passes: int = 0
    # seconds, standard_seconds: time with and without drafts, both measured in the repetition, one right after the
    # other, because the first answer was decoded in a batch or while requests were handled
    seconds: float = 0.0
    standard_seconds: float = 0.0

    def __add__(self, other: ShadowCounts) -> ShadowCounts:
        sums = {name: value + getattr(other, name) for name, value in asdict(self).items() if name != "day"}
        return ShadowCounts(self.day, **sums)

    @property
    def sentence(self) -> str:
        """The counts as one line."""
        if not self.questions:
            return "today: no question decoded again yet"
        parts = [f"{self.questions} question{'s' * (self.questions != 1)}"]
        if self.passes:
            parts.append(f"{self.tokens / self.passes:.1f} tokens a pass")
        if self.seconds:
            parts.append(f"{self.standard_seconds / self.seconds:.1f} times as fast")
        parts.append(f"{self.differ} answer{'s' * (self.differ != 1)} differ{'s' * (self.differ == 1)}")
        return f"today: {', '.join(parts)}"


@dataclass
class _Question:
    """An answered question that waits for its repetition."""

    engine: Engine
    query: str | PreparedQuery
    settings: DecodeSettings
    served: DecodeResult
    streamed: bool
    tries: int = 0


class _InterruptedError(Exception):
    """Another question arrived."""


class Shadow:
    """Decodes a fraction of the answered questions again and compares; thread-safe."""

    def __init__(
        self,
        fraction: float,
        folder: Path,
        name: str,
        *,
        today: Callable[[], date] = date.today,
        measured: Callable[[str, ShadowCounts], object] = lambda *_: None,
        differs: Callable[[Path, bool], object] = lambda *_: None,
    ) -> None:
        """Continue with the counts of today, if there are any; ValueError for a fraction of 0 or below, or above 1.

        A fraction of 0.05 is every twentieth question. Counts and differences are stored in the folder; the file of
        counts is named "service" or "app". `measured` is called with the name of the model and the counts of every
        repetition, `differs` for a different answer with the file of differences, and whether it had room.
        """
        if not 0 < fraction <= 1:
            raise ValueError(f"the shadow fraction is {fraction:g}; give one above 0 and at most 1, such as 0.05")
        self.fraction, self.differences = fraction, folder / DIFFERENCES_FILE
        self._file = folder / f"shadow-{name}.json"
        self._today, self._measured, self._differs = today, measured, differs
        self._lock = Lock()
        self._eligible = 0
        self._pending: deque[_Question] = deque(maxlen=MOST_PENDING)
        try:
            self._counts = msgspec.json.decode(self._file.read_bytes(), type=ShadowCounts)
        except (OSError, ValueError):  # none yet, or damaged
            self._counts = ShadowCounts("")

    @property
    def counts(self) -> ShadowCounts:
        """Counts of today."""
        with self._lock:
            return self._counts_of_today()

    @property
    def pending(self) -> int:
        """Number of questions that wait for their repetition."""
        return len(self._pending)

    def offer(
        self,
        engine: Engine,
        query: str | PreparedQuery,
        settings: DecodeSettings,
        served: DecodeResult,
        *,
        streamed: bool = False,
    ) -> bool:
        """Take the chosen fraction of drafted questions of exact decoding; returns whether this one is taken.

        `streamed`: it was decoded pass by pass, which costs more per pass; the repetition then is, too.
        """
        repeatable = settings.guarantee == "exact" and not settings.record and served.within is None
        if served.status != "ok" or not repeatable or settings.drafts_by == "none":
            return False
        with self._lock:
            self._eligible += 1
            if int(self._eligible * self.fraction) == int((self._eligible - 1) * self.fraction):
                return False
            self._pending.append(_Question(engine, query, settings, served, streamed))
            return True

    def run_next(self, interrupted: Callable[[], bool]) -> bool:
        """Decode the next question again, unless another one arrives meanwhile; returns whether one was measured.

        `interrupted` returns whether something else waits; it is called before every forward pass, or every few
        milliseconds if these are fast.
        """
        try:
            question = self._pending.popleft()
        except IndexError:
            return False
        try:
            self._record(question, *self._decode_again(question, interrupted))
        except _InterruptedError:
            question.tries += 1
            if question.tries < MOST_TRIES and len(self._pending) < MOST_PENDING:
                self._pending.appendleft(question)
            return False
        except Exception as error:  # it must not end the thread that answers users
            LOG.warning("a question could not be decoded again: %s", type(error).__name__)  # without the query
            return False
        return True

    def _decode_again(self, question: _Question, interrupted: Callable[[], bool]) -> tuple[DecodeResult, DecodeResult]:
        """Return the answers with and without drafts; the first one alternates, as the second finds warm caches."""
        drafted = replace(question.settings, batch_size=1)
        order = [drafted, replace(drafted, drafter="none")]
        if self._counts.questions % 2:
            order.reverse()
        results = {settings.drafter: _decode_alone(question, settings, interrupted) for settings in order}
        return results[drafted.drafter], results["none"]

    def _record(self, question: _Question, drafted: DecodeResult, standard: DecodeResult) -> None:
        served, engine = question.served, question.engine
        row = result_document(served)
        reason = describe_difference(row, standard, TOLERANCES[engine.runtime_config.exactness])
        saved = count_savings(served)
        new = ShadowCounts(
            self._today().isoformat(),
            questions=1,
            differ=int(bool(reason)),
            tokens=saved.tokens,
            passes=saved.passes,
            seconds=drafted.trace.seconds,
            standard_seconds=standard.trace.seconds,
        )
        with self._lock:
            self._counts = self._counts_of_today() + new
            with suppress(OSError):  # the counts then end with this process
                make_private_folder(self._file.parent)
                write_text_atomic(self._file, json.dumps(asdict(self._counts)), private=True)
            stored = bool(reason) and self._store_difference(question, standard, reason)
        self._measured(engine.name, new)
        if reason:
            self._differs(self.differences, stored)

    def _store_difference(self, question: _Question, standard: DecodeResult, reason: str) -> bool:
        engine, served = question.engine, question.served
        stamp = settings_stamp(engine.digest, engine.dtype, question.settings)
        row = add_receipt(result_document(served), served, engine, stamp)
        row |= {
            "difference": reason,
            "standard": result_document(standard)["hypotheses"],
            "date": self._today().isoformat(),
        }
        line = (json.dumps(row) + "\n").encode()
        try:
            make_private_folder(self.differences.parent)
            with open_private(self.differences, "ab") as file:
                if file.tell() + len(line) > LIMIT:
                    return False
                file.write(line)
        except OSError:
            return False
        return True

    def _counts_of_today(self) -> ShadowCounts:
        day = self._today().isoformat()
        return self._counts if self._counts.day == day else ShadowCounts(day)


def _decode_alone(question: _Question, settings: DecodeSettings, interrupted: Callable[[], bool]) -> DecodeResult:
    """Return the answer to a question with these settings; raises `_InterruptedError` if another one arrives."""

    def before_pass() -> None:
        if interrupted():
            raise _InterruptedError

    before_pass()
    if not question.streamed:
        query = question.query
        ready = question.engine.prepare(query) if isinstance(query, str) else query
        (result,) = question.engine.decode([ready], settings, before_pass=before_pass)
        return result
    for event in question.engine.stream(question.query, settings):
        if isinstance(event, DecodeResult):
            return event
        before_pass()
    raise AssertionError("a stream ends with its result")
