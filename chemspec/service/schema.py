"""Request and response models of the HTTP interface; all bounds are here or in `limits`."""

from inspect import getdoc
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.service.review_schema import Review
from chemspec.settings import RANGES, RULES, DecodeSettings, Task, lists_distinct
from chemspec.terminal.documented_options import documented_texts
from chemspec.types import Merged, Within

DEFAULT = DecodeSettings()
HINTS, TEXTS = get_type_hints(DecodeSettings), documented_texts(getdoc(DecodeSettings))
MAX_TEXT = 100_000  # characters of a query; up to here, too long queries get a status
MAX_FIELDS = 100  # fields of a request; further ones would be a fault each, of which a body has room for 10^5

Text = Annotated[str, Field(max_length=MAX_TEXT)]
Texts = Annotated[list[Text], Field(fail_fast=True)]  # one fault is described, and not each of 10^6


def _examples(*bodies: dict[str, Any], extra: Literal["forbid", "ignore"] = "forbid") -> ConfigDict:
    """Return the configuration of a request with example bodies for the OpenAPI document."""
    return ConfigDict(extra=extra, protected_namespaces=(), json_schema_extra={"examples": [*bodies]})


class RequestBody(BaseModel):
    """A request without other fields; whatever is wrong with it has few faults."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def check_number_of_fields(cls, fields: Any) -> Any:
        """Refuse more fields than any request has."""
        if isinstance(fields, dict) and len(fields) > MAX_FIELDS:
            raise ValueError(f"more than {MAX_FIELDS} fields")
        return fields


class _Options(RequestBody):
    """Model and decoding settings; see `chemspec.DecodeSettings`."""

    task: Task | None = Field(None, description="forward (products), retro (precursors) or reagents")
    model: str | None = Field(None, max_length=200, description="a name from /v1/models; by default that of the task")
    decoder: str = Field("auto", json_schema_extra={"enum": ["auto", *DECODERS]})
    exact: bool = Field(True, description="false: allow decoders that may differ from standard decoding")
    distinct: bool | None = Field(
        None, description=f"{TEXTS['distinct'][1]}; default: for beams, but not with other rules or a length penalty"
    )
    guide: str = Field(DEFAULT.guide, max_length=2000, description=TEXTS["guide"][1])
    prefix: str = Field(DEFAULT.prefix, max_length=2000, description=TEXTS["prefix"][1])
    timeout: float | None = Field(None, gt=0, le=1e6, allow_inf_nan=False, description="seconds; limited by the server")

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `DecodeSettings`."""
        fields = self.model_dump(include={*HINTS})
        return fields | ({"distinct": lists_distinct(fields)} if fields["distinct"] is None else {})


def _field(name: str) -> tuple[Any, Any]:
    """Return the type of a field of `DecodeSettings`, and its limits and description."""
    low, high = RANGES.get(name, (None, None))
    choices = {"drafter": [*DRAFTERS], "rules": [*RULES]}.get(name)
    extra: Any = {"enum": choices} if choices else None
    return HINTS[name], Field(
        getattr(DEFAULT, name), ge=low, le=high, description=TEXTS[name][1], json_schema_extra=extra
    )


_FIELDS: Any = {name: _field(name) for name in HINTS if name not in ("batch_size", "record", *_Options.model_fields)}
DecodeOptions: Any = create_model("DecodeOptions", __base__=_Options, **_FIELDS)


class QueriesQuestion(DecodeOptions):  # type: ignore[misc]
    """One query or many."""

    model_config = _examples({"queries": ["CC(=O)Nc1ccc(O)cc1", "aspirin"], "task": "retro", "n": 5})

    queries: Text | Texts = Field(description="SMILES or reaction SMILES, one or several")


Lists = Annotated[
    list[Annotated[str, Field(max_length=200)]] | None,
    Field(
        max_length=50,
        fail_fast=True,
        description="names of stock lists, see /v1/stock; by default the lab's and the built-in ones",
    ),
]


class ReviewQuestion(QueriesQuestion):
    """One query or many, and what can be bought."""

    stock: Lists = None


class PredictQuestion(QueriesQuestion):
    """One query or many, perhaps with a deadline."""

    within: float | None = Field(
        None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="seconds from the arrival of the request, for all its queries in turn: the greedy answer, then the "
        "widest exact beam up to n that fits; each result states its width",
    )


class Answer(BaseModel):
    """A prediction; votes, best_rank and score with augmentation."""

    model_config = ConfigDict(protected_namespaces=())

    smiles: str
    canonical: str = Field(description="canonical SMILES; empty if the prediction is invalid")
    valid: bool
    log_prob: float
    probability: float = Field(description="that the prediction is correct if calibrated, otherwise the model's")
    calibrated: bool
    model_probability: float
    votes: int | None
    best_rank: int | None
    score: float | None


class Result(BaseModel):
    """Result of a query; a failed query has a status and a message."""

    query: str
    status: Literal["ok", "invalid", "too_long", "failed"]
    message: str
    hypotheses: list[Answer]
    merged: Merged | None
    passes: int
    tokens: int
    seconds: float
    within: Within | None = Field(
        None,
        description="only with a deadline: width of the list (1: greedy answer; 0: nothing was complete), of the "
        "abandoned search (0: none), and forward passes of all searches",
    )


class _ModelAnswer(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    model: str
    task: Task
    digest: str = Field(description="digest of weights, config and vocabulary, as in receipts")
    settings: dict[str, Any]


class Prediction(_ModelAnswer):
    """Results in the order of the queries."""

    results: list[Result]


class ReviewedResult(Result):
    """Result of a query with its review."""

    review: Review


class ReviewAnswer(_ModelAnswer):
    """Reviewed results in the order of the queries."""

    results: list[ReviewedResult]


class ModelInfo(BaseModel):
    """A model of the service."""

    name: str
    task: Task
    digest: str = Field(description="digest of weights, config and vocabulary, as in receipts")
    dtype: str
    runtime: str
    devices: list[str]
    exactness: str = Field(description="precision up to which predictions are independent of drafts and batches")
    longest_query: int = Field(description="in tokens")
    drafters: list[str]


class Models(BaseModel):
    """All models, and the limits of requests."""

    models: list[ModelInfo]
    version: str
    limits: dict[str, int | float]


class Problem(BaseModel):
    """Error message with a remedy."""

    detail: str = Field(description="what is wrong and what to do")
    code: str = Field(description="for programs, such as queue_full or unknown_model")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "invalid request"},
    401: {"model": Problem, "description": "no key, or a wrong one"},
    404: {"model": Problem, "description": "no such model"},
    408: {"model": Problem, "description": "the request arrives too slowly"},
    413: {"model": Problem, "description": "too many bytes or queries"},
    415: {"model": Problem, "description": "a Content-Encoding other than gzip"},
    422: {"model": Problem, "description": "a field is missing, unknown or out of range"},
    429: {"model": Problem, "description": "too many queries are waiting; see Retry-After"},
    503: {"model": Problem, "description": "stopping; see Retry-After"},
    504: {"model": Problem, "description": "no result in time"},
}


class PredictionsQuestion(BaseModel):
    """Request of the ASKCOS v2 gateway to a backend."""

    model_config = _examples({"model_name": "retro", "smiles": ["CC(=O)Nc1ccc(O)cc1"]}, extra="ignore")

    model_name: str = ""
    smiles: Texts


class PredictionsAnswer(BaseModel):
    """Predictions for one SMILES, best first, and their probabilities."""

    products: list[str]
    scores: list[float]


class StockList(BaseModel):
    """A list of building blocks."""

    name: str = Field(description="for `stock` of requests")
    title: str
    date: str = Field(description="of the list, as it states or of its last change; empty for built-in ones")
    currency: str = Field(description="of prices that state none; empty if unknown")
    built_in: bool


class StockLists(BaseModel):
    """The lists of building blocks of this service, in the order in which they are looked up."""

    lists: list[StockList]


class NamesQuestion(RequestBody):
    """Texts to read: names, formulas, SMILES, InChI, molfiles, reactions."""

    model_config = _examples({"texts": ["aspirin", "THF, NaH", "C1CC"], "task": "forward"})

    texts: Text | Texts
    task: Task = Field("forward", description="what they are for: forward reads flasks, retro one molecule")


class ReadingFault(BaseModel):
    """Why a text cannot be read, and the characters [start, end) at fault."""

    message: str
    start: int
    end: int
    kind: str


class Reading(BaseModel):
    """A text as SMILES with notes on what was read as what, or the fault in it."""

    text: str
    smiles: str = Field(description="empty if the text cannot be read")
    notes: list[str]
    fault: ReadingFault | None


class Readings(BaseModel):
    """What was read, in the order of the texts."""

    results: list[Reading]


class CheckQuestion(RequestBody):
    """A reaction with both sides, and the model that is asked about it."""

    model_config = _examples({"reaction": "CC(=O)Cl.Nc1ccccc1>>CC(=O)Nc1ccccc1", "task": "forward"})

    reaction: Text = Field(description="reaction SMILES, or the content of an RXN, RDF or CDXML file")
    task: Task | None = Field(None, description="forward checks the product, retro the reactants, reagents the agents")
    model: str | None = Field(None, max_length=200, description="a name from /v1/models; by default that of the task")
    timeout: float | None = Field(None, gt=0, le=1e6, allow_inf_nan=False, description="seconds; limited by the server")


class Check(BaseModel):
    """Whether a model expects a reaction."""

    model_config = ConfigDict(extra="allow")

    model: str
    task: Task
    query: str = Field(description="what the model was asked")
    expected: str = Field(description="the given other side")
    rank: int = Field(description="of the given side among the predictions, from 1; 0 if it is missing")
    agrees: bool = Field(description="whether it is the first one")
    probability: float = Field(description="of the prediction at that rank; 0 if it is missing")
    sentence: str = Field(description="the verdict in words")
    problem: str = Field(description="a problem of the reaction itself; empty if there is none")
    result: Result
