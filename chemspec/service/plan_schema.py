"""Request and response models of `/v1/plan`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from chemspec.plan.orders import ORDERS, PROBABILITY
from chemspec.plan.settings import PlanSettings
from chemspec.service.review_schema import Precedent
from chemspec.service.schema import Lists, RequestBody, Text

DEFAULT = PlanSettings()
MAX_NODES = 20_000  # nodes of a search, about 4 kB each


class PlanQuestion(RequestBody):
    """A molecule to make, and the limits of the search; see `chemspec plan --help`."""

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        json_schema_extra={"examples": [{"target": "CCN(CC)CC(=O)Nc1c(C)cccc1C", "expansions": 20, "routes": 5}]},
    )

    target: Text = Field(description="SMILES, name, or text of any other format that is read")
    stock: Lists = None
    model: str | None = Field(None, max_length=200, description="a model of precursors; by default retro")
    n: int = Field(10, ge=1, le=50, description="precursor sets proposed for a molecule")
    check: bool = Field(True, description="whether the forward model checks the steps, if the service has it")
    seconds: float = Field(DEFAULT.seconds, gt=0, le=3600, description="time limit of the search, without the list")
    expansions: int = Field(DEFAULT.expansions, ge=1, le=2000, description="different molecules that are expanded")
    depth: int = Field(DEFAULT.depth, ge=1, le=20, description="steps after each other")
    routes: int = Field(DEFAULT.routes, ge=1, le=50, description="routes that are listed")
    through: str = Field("", max_length=2000, description="intermediate that every route has: SMILES or name")
    avoid: list[Annotated[str, Field(max_length=2000)]] = Field(
        [], max_length=5, fail_fast=True, description="SMARTS of no precursor"
    )
    order: str = Field(PROBABILITY, json_schema_extra={"enum": [*ORDERS]}, description="order of the routes")
    timeout: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="seconds with waiting and the list; limited by the server"
    )


class Conditions(BaseModel):
    """Reagents that were used together."""

    reagents: str = Field(description="SMILES")
    count: int = Field(description="of the nearest precedents with exactly these")


class Count(BaseModel):
    """Number of precedents."""

    close: int
    wide: int


class StepFacts(BaseModel):
    """What is known of a step; fields without a value are left out."""

    model_config = ConfigDict(populate_by_name=True)

    probability: float
    policy_probability: float = Field(description="after the checks, as the search uses it")
    round_trip: float | None = Field(description="the forward model's probability of the product; 0: it differs")
    step: int | None = Field(None, description="number of the step in the order of the synthesis")
    reaction_class: str | None = Field(None, alias="class")
    problems: list[str] | None = None
    proposed_reagents: str | None = None
    checked_with: str | None = Field(None, description="reagents that the forward model read, too")
    precedents: Count | None = None
    nearest: list[Precedent] | None = None
    conditions: list[Conditions] | None = None


class StockFacts(BaseModel):
    """Where a molecule can be bought; fields without a value are left out."""

    stock: str | None = Field(None, description="list, price and supplier")
    patent_intermediate: bool | None = None


class ReactionNode(BaseModel):
    """A step, and its precursors."""

    type: Literal["reaction"]
    smiles: str
    metadata: StepFacts
    children: list[MoleculeNode]


class MoleculeNode(BaseModel):
    """A molecule, and the step that makes it, in the form of AiZynthFinder and PaRoutes."""

    type: Literal["mol"]
    smiles: str
    in_stock: bool
    metadata: StockFacts | None = None
    children: list[ReactionNode] | None = Field(None, description="one step; left out for building blocks")


class Scores(BaseModel):
    """Scores of a route."""

    score: float
    weakest_step: float
    steps: int
    depth: int
    solved: bool
    group: int = Field(description="number of its group of similar routes")


class RouteTree(MoleculeNode):
    """A route as a tree, from the target down."""

    title: str
    scores: Scores


class SearchCounts(BaseModel):
    """Cost of a search."""

    molecules: int
    checks: int
    calls: int
    passes: int
    tokens: int
    seconds: float


class Plan(BaseModel):
    """Routes to a molecule."""

    target: str
    notes: list[str]
    status: Literal["solved", "open", "refused"]
    message: str
    target_in_stock: str = Field(description="the list that has the target itself; empty if none has")
    expansions: int
    seconds: float
    counts: SearchCounts
    routes: list[RouteTree]


class Progress(BaseModel):
    """How far a search is."""

    expansions: int = Field(description="different molecules expanded so far")
    limit: int = Field(description="of these")
    seconds: float
    solved: bool = Field(description="whether there is a route from stock")


class PlanAnswer(BaseModel):
    """A search for routes, and its plan when it has ended."""

    id: str = Field(description="for `/v1/plan/{id}`, known to its client only")
    state: Literal["waiting", "running", "done", "stopped", "failed"]
    message: str = Field(description="how it ended; empty before")
    target: str = Field(description="as it was given")
    progress: Progress
    plan: Plan | None = Field(description="null until it has ended; of a stopped search what it had found")
