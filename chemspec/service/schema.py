"""Define what is asked and answered over HTTP, as OpenAPI shows it; every bound stands here or in `limits`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.settings import RULES, DecodeSettings, Task

DEFAULT = DecodeSettings()
MAX_TEXT = 100_000  # characters of a query; what is longer than a model reads gets a status, up to here

Text = Annotated[str, Field(max_length=MAX_TEXT)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class How(_Strict):
    """Which model answers, and how; see `chemspec.DecodeSettings`."""

    task: Task | None = Field(None, description="forward (what forms?) or retro (what from?)")
    model: str | None = Field(None, max_length=200, description="a name of /v1/models; by default the task's")
    n: int = Field(DEFAULT.n, ge=1, le=1000, description="answers wanted")
    decoder: str = Field("auto", json_schema_extra={"enum": ["auto", *DECODERS]})
    drafter: str = Field(DEFAULT.drafter, json_schema_extra={"enum": [*DRAFTERS]})
    exact: bool = Field(True, description="false: allow decoders whose answers may differ from the standard")
    max_len: int = Field(DEFAULT.max_len, ge=1, le=1000, description="most tokens of an answer")
    draft_length: int = Field(DEFAULT.draft_length, ge=0, le=1000)
    draft_count: int = Field(DEFAULT.draft_count, ge=0, le=1000)
    dilation: int = Field(DEFAULT.dilation, ge=0, le=1000)
    node_budget: int = Field(DEFAULT.node_budget, ge=0, le=4096)
    drafting: Literal["planned", "fixed"] = Field(DEFAULT.drafting, description="as many drafts as pay, or as budgeted")
    length_penalty: float = Field(DEFAULT.length_penalty, ge=0, le=100, allow_inf_nan=False)
    rules: str = Field(DEFAULT.rules, json_schema_extra={"enum": [*RULES]}, description="whose beam search")
    beta: int = Field(DEFAULT.beta, ge=1, le=1000)
    tau: float = Field(DEFAULT.tau, ge=0, le=1e6, allow_inf_nan=False)
    temperature: float = Field(DEFAULT.temperature, gt=0, le=1e6, allow_inf_nan=False)
    top_p: float = Field(DEFAULT.top_p, gt=0, le=1)
    seed: int = Field(DEFAULT.seed, ge=0, lt=2**63)
    augment: int = Field(DEFAULT.augment, ge=1, le=100, description="spellings of a query, whose answers are merged")
    distinct: bool = Field(DEFAULT.distinct, description="different molecules only, valid and not the query")
    guide: str = Field(DEFAULT.guide, max_length=2000, description='as "break C1-N3; keep C5-C6; only amide"; retro')
    timeout: float | None = Field(None, gt=0, le=1e6, allow_inf_nan=False, description="seconds; the server's at most")

    @property
    def settings(self) -> dict[str, Any]:
        """What of it are fields of `DecodeSettings` that need no choice."""
        return self.model_dump(exclude={"task", "model", "n", "decoder", "exact", "timeout", *_NO_SETTINGS})


_NO_SETTINGS = {"queries", "query", "trace"}


class Question(How):
    """One query or many."""

    queries: Text | list[Text] = Field(description="SMILES or reaction SMILES, one or several")
    record: bool = Field(False, description="with trace: keep every prefix computed")
    trace: bool = Field(False, description="return complete results, with every pass, as `documents`")


class StreamQuestion(How):
    """One query, whose passes are told as they come."""

    query: str = Field(max_length=5000, description="SMILES or reaction SMILES")  # it may stand in an address
    trace: bool = Field(False, description="end with the complete result, every pass in it")


class Answer(BaseModel):
    """One answer; votes, best_rank and score where spellings were merged, confidence where it has been measured."""

    smiles: str
    canonical: str = Field(description="in RDKit's spelling; empty where the text is no valid SMILES")
    valid: bool
    log_prob: float
    probability: float
    confidence: float | None
    votes: int | None
    best_rank: int | None
    score: float | None


class Result(BaseModel):
    """What became of one query; a bad one has a status and a message, and the others their answers."""

    query: str
    status: Literal["ok", "invalid", "too_long", "failed"]
    message: str
    hypotheses: list[Answer]
    merged: dict[str, int] | None
    passes: int
    tokens: int
    seconds: float


class Prediction(BaseModel):
    """Results in the order of the queries."""

    model_config = ConfigDict(protected_namespaces=())

    model: str
    task: Task
    digest: str = Field(description="of the weights")
    settings: dict[str, Any]
    results: list[Result]
    documents: list[dict[str, Any]] | None = Field(None, description="complete results, if they were asked for")


class ModelInfo(BaseModel):
    """A model that answers here."""

    name: str
    task: Task
    digest: str
    dtype: str
    runtime: str
    devices: list[str]
    exactness: str = Field(description="how far drafts and company leave an answer as it is")
    longest_query: int = Field(description="in tokens")
    drafters: list[str]


class Models(BaseModel):
    """All models, and what a request may ask of them."""

    models: list[ModelInfo]
    version: str
    limits: dict[str, float]


class Problem(BaseModel):
    """Why a request was refused, and what to do."""

    detail: str
    code: str = ""


class PredictionsQuestion(BaseModel):
    """What the gateway of ASKCOS v2 posts to a backend."""

    model_config = ConfigDict(protected_namespaces=())

    model_name: str = ""
    smiles: list[Text]


class PredictionsAnswer(BaseModel):
    """Of one SMILES what the model writes, best first, and its probabilities."""

    products: list[str]
    scores: list[float]
