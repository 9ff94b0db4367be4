"""Results of decoding runs: token ids as SMILES, with traces and calibrated probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import exp
from typing import Any

import chemspec.chem as chem
from chemspec.chem.reactions.isotopes import put_labels_back
from chemspec.decode.decoding import Decoded
from chemspec.engine import augment
from chemspec.engine.confidence import Confidence
from chemspec.engine.queries import PreparedQuery
from chemspec.importers.base import TextTokenizer
from chemspec.model.session import ScoresError
from chemspec.settings import DecodeSettings
from chemspec.types import DecodeResult, FinishedSequence, Hypothesis, Pass, StandardCost, Trace

OUT_OF_MEMORY = "memory does not suffice for this query; ask for fewer answers, or on a GPU use the CPU"


@dataclass(frozen=True, eq=False)
class ResultWriter:
    """Writes what a model has decoded as results."""

    where: Mapping[str, str]  # model, task, device, precision and runtime, as in traces
    arithmetic: str  # see `RuntimeConfig.exactness`
    tokenizer: TextTokenizer
    confidence: Confidence | None

    def write_result(self, query: PreparedQuery, settings: DecodeSettings, search: Decoded) -> DecodeResult:
        """Return the result of one search."""
        hypotheses = tuple(map(self._write_hypothesis, search.answers))
        if query.unlabelled and (task := self.where["task"]) in ("forward", "retro"):
            hypotheses = tuple(
                replace(answer, canonical=put_labels_back(query.smiles, answer.canonical, retro=task == "retro"))
                if answer.valid
                else answer
                for answer in hypotheses
            )
        if self.confidence is not None and not settings.prefix:  # it was measured on free answers
            hypotheses = self.confidence.calibrate(hypotheses)
        trace = self._write_trace(query, settings, search.passes, search.seconds, search.standard_cost)
        return DecodeResult(query.text, "ok", "", hypotheses, trace, query.notes, smiles=query.smiles)

    def write_searches(
        self,
        query: PreparedQuery,
        rows: Sequence[PreparedQuery],
        decoded: Sequence[Decoded],
        searches: Sequence[DecodeSettings],
    ) -> list[DecodeResult]:
        """Return the results of all searches of a query, from the decoded rows of its variants."""
        by_search = zip(*((*row.earlier, row) for row in decoded), strict=True)
        return [
            self._write_variants(query, rows, search, settings)
            for search, settings in zip(by_search, searches, strict=False)
        ]

    def _write_variants(
        self, query: PreparedQuery, rows: Sequence[PreparedQuery], decoded: Sequence[Decoded], settings: DecodeSettings
    ) -> DecodeResult:
        """Return the result of a search, merged from those of the query's variants if there are several."""
        # The trace of a row is the same as without augmentation.
        alone = replace(settings, augment=1) if settings.augment > 1 else settings
        results = [self.write_result(row, alone, search) for row, search in zip(rows, decoded, strict=True)]
        if settings.augment == 1:
            return results[0]
        passes = augment.passes_per_call([result.trace for result in results])
        trace = self._write_trace(query, settings, passes, max(result.trace.seconds for result in results))
        size = {"requested": settings.augment, "n": settings.n}
        return augment.merge_variants(query.text, results, **size, trace=trace, notes=query.notes)

    def _write_hypothesis(self, answer: FinishedSequence) -> Hypothesis:
        smiles = self.tokenizer.decode(answer.tokens)
        canonical = chem.canonical(smiles) if answer.ended == "eos" else None
        return Hypothesis(
            smiles=smiles,
            canonical=canonical or "",
            valid=canonical is not None,
            tokens=tuple(self.tokenizer.token_texts(answer.tokens)),
            token_log_probs=answer.log_probs,
            log_prob=answer.log_prob,
            model_probability=(probability := exp(answer.log_prob)),
            probability=probability,
            ended=answer.ended,
        )

    def _write_trace(
        self,
        query: PreparedQuery,
        settings: DecodeSettings,
        passes: Sequence[Pass],
        seconds: float,
        standard_cost: StandardCost | None = None,
    ) -> Trace:
        is_needed = (settings.record or self.tokenizer.merges) and settings.augment == 1
        vocabulary = self.tokenizer.tokens if is_needed else ()
        fields = {**self.where, **_settings_fields(settings, self.arithmetic)}
        if self.tokenizer.merges:
            fields["merged"] = True
        if settings.guarantee != "exact" and not settings.distinct:  # this would be another search without drafts
            standard_cost = None
        return Trace(query.tokens, fields, tuple(passes), seconds, vocabulary, standard_cost)


@lru_cache(maxsize=64)  # the values are immutable, so that traces can share them
def _settings_fields(settings: DecodeSettings, arithmetic: str) -> dict[str, Any]:
    exactness = settings.exactness(arithmetic)
    return {**asdict(settings), "drafter": settings.drafts_by, "exact": settings.exact, "exactness": exactness}


def failed_result(query: PreparedQuery, error: Exception) -> DecodeResult:
    """Return the result of a query that the model cannot compute."""
    message = str(error) if isinstance(error, ScoresError) else OUT_OF_MEMORY
    return DecodeResult(query.text, "failed", message, smiles=query.smiles)
