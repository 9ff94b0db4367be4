"""Response models of reviews: what `chemspec.review.review_document` returns, for the OpenAPI document."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Site(BaseModel):
    """An atom of a reactant that gets the new bond in some of the predictions."""

    atom: int = Field(description="index in the SMILES of the reactant, from 0")
    equivalent: list[int] = Field(description="atoms that are the same by symmetry, this one included")
    probability: float = Field(description="that the product with the bond there is right; no ratio of isomers")
    ranks: list[int] = Field(description="of the suggestions with the bond there")


class Selectivity(BaseModel):
    """A reactant whose atoms compete for the new bond."""

    reactant: str = Field(description="SMILES")
    sites: list[Site] = Field(description="the likeliest first")
    calibrated: bool


class Repair(BaseModel):
    """A flask without what speaks against the product."""

    instead: str = Field(description="what is changed, in words")
    flask: str = Field(description="SMILES")


class ForwardVerdict(BaseModel):
    """The forward model's verdict on precursors."""

    verdict: Literal["agrees", "unsure", "differs"]
    probability: float = Field(description="the model's, of its product")
    product: str = Field(description="SMILES that the forward model predicts; empty if none is valid")
    added: str = Field(description="SMILES of the reagents that were added to the precursors; empty if none")
    geometry_open: bool = Field(description="whether the product is the target but for E/Z that it does not set")


class Reagents(BaseModel):
    """Reagents of a step."""

    smiles: str
    text: str = Field(description="in words")
    source: str = Field(description="the nearest precedents, usual ones of the class, or a model")


class Precedent(BaseModel):
    """A recorded reaction with the same change."""

    reactants: str
    product: str
    reagents: str = Field(description="SMILES with solvents and work-up; empty if unknown")
    patent: str = Field(description="its number; empty if unknown")
    year: str = Field(description="empty if unknown")
    similarity: float = Field(description="of its product to that of this step, from 0 to 1")
    close: bool = Field(description="whether the neighbours of the reaction centre agree too")
    same: bool = Field(description="whether it is this very reaction")
    files: list[str] = Field(description="data files that contain it")


class Precedents(BaseModel):
    """Patent reactions with the same change."""

    close: int = Field(description="number of them with the same neighbours of the reaction centre")
    wide: int = Field(description="number of them with any neighbours")
    nearest: list[Precedent]


class Availability(BaseModel):
    """Whether a molecule can be bought."""

    smiles: str
    list: str = Field(description="name of the first stock list that has it; empty if none has")
    title: str = Field(description="of that list")
    price: float | None
    unit: str = Field(description="of the price, such as EUR/g; empty if unknown")
    supplier: str = Field(description="empty if unknown")
    intermediate: bool = Field(description="whether it is only an intermediate of patents, which is not sold")
    shelf: str = Field(description="where the lab keeps it, such as B3 · 40 g; empty unless an inventory has it")


class Alternative(BaseModel):
    """Another prediction of a suggestion's kind."""

    smiles: str
    probability: float
    forward: ForwardVerdict | None


class Suggestion(BaseModel):
    """A strategy: its best prediction, and others that form the same bonds; or a product with its E/Z isomers."""

    model_config = ConfigDict(populate_by_name=True)

    rank: int = Field(description="from 1")
    smiles: str = Field(description="canonical SMILES of the best prediction; empty if it is invalid")
    reaction_class: str = Field(alias="class", description="the reaction class; empty if it is unknown")
    probability: float = Field(description="that one of its predictions is correct")
    calibrated: bool = Field(description="whether that probability is; otherwise it is the model's")
    problems: list[str] = Field(description="what speaks against it")
    notes: list[str] = Field(description="such as stereochemistry that a product leaves open")
    by_rule: str = Field(description="for a product against a law of stereochemistry: the isomer that keeps it")
    repairs: list[Repair] = Field(description="of a flask whose parts contradict each other")
    geometry: str = Field(description="E/Z isomers of a product with probabilities; empty if there is one")
    hazards: list[str] = Field(description="of the reaction")
    forward: ForwardVerdict | None = Field(description="null if it is unchecked")
    reagents: Reagents | None
    precedents: Precedents | None = Field(description="null where they were not looked up")
    stock: list[Availability | None] = Field(
        description="for each molecule of `smiles`, in order; of a salt at its first ion, null at the others"
    )
    alternatives: list[Alternative]


class Review(BaseModel):
    """Review of the predictions for a query."""

    smiles: str = Field(description="the query")
    warning: str = Field(description="that all predictions are doubtful; empty if they are not")
    recorded: int | None = Field(description="rank of the suggestion that a patent records for this very query")
    selectivity: list[Selectivity]
    suggestions: list[Suggestion] = Field(description="the likeliest first")
