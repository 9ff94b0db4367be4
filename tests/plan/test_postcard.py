"""Routes on a page of A5: all that a route says is on it, inside the page, in three formats that need no font."""

from __future__ import annotations

import re
import zlib
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("segno")
pytest.importorskip("syntheseus")

import segno
from PIL import Image
from rdkit.Chem import rdChemReactions

from chemspec import chem
from chemspec.chem.formats import Input, read_input
from chemspec.chem.reading import chemdraw
from chemspec.depict.font import sans
from chemspec.plan import depict, postcard
from chemspec.plan.expand import Proposal
from chemspec.plan.export import PlanFile
from chemspec.plan.postcard import DPI, EDGE, HEIGHT, WIDTH, postcard_file, to_postcard
from chemspec.plan.question import plan_question
from chemspec.plan.routes import Node, Route
from chemspec.precedents import Conditions, Found, Precedent
from chemspec.precedents.patent_years import patent_year

ACID, CHLORIDE, AMINE, AMIDE = "O=C(O)c1ccccc1", "O=C(Cl)c1ccccc1", "NCc1ccccc1", "O=C(NCc1ccccc1)c1ccccc1"
LARGE = "CC(C)(C)OC(=O)N1CCC(Oc2ccc(C(=O)NC(Cc3ccccc3)C(=O)NC(CC(C)C)C(=O)Nc3ccc4c(c3)OCO4)cc2-c2ccc(F)cc2)CC1"
EVIL = "mine</text><script>alert(1)</script>\0 & \"'); \\ (Endmark ☃漢 ü.csv"


def made(product: str, *reactants: Node, chance: float = 0.8) -> Node:
    smiles = str(chem.canonical(product))
    parts = tuple(str(chem.canonical(node.smiles)) for node in reactants)
    return Node(smiles, step=Proposal(parts, chance, round_trip=0.9), children=reactants)


def chain(steps: int) -> Route:
    """A route of so many steps, each to a larger amine."""
    node = Node("NC", "common")
    for length in range(2, steps + 2):
        node = made("N" + "C" * length, node, Node(LARGE, "common"))
    return Route(node)


BRANCHED = Route(made(AMIDE, made(CHLORIDE, Node(ACID, EVIL)), made(AMINE, Node("N#Cc1ccccc1", "mine.csv, 12 EUR/g"))))
REACTION = f"{CHLORIDE}.{AMINE}>>{AMIDE}"
RECORD = Precedent(f"{CHLORIDE}.{AMINE}", AMIDE, "", "US06765005B2", patent_year("US06765005B2"), 0.9, True, False, ())
EVIDENCE = {
    node.step.reaction(node.smiles): Found(1, 1, (RECORD,), (Conditions("CC#N.O=C([O-])[O-].[K+].[K+]", 1),))
    for node in BRANCHED.steps
    if node.step
}
QUESTION = plan_question(AMIDE)


def texts(picture: Any) -> str:
    return " ".join(item.text for item in picture.items if item.text)


def test_all_that_a_route_says_is_on_the_page() -> None:
    said = texts(to_postcard(BRANCHED, "Route 1", EVIDENCE, QUESTION))
    for part in ("Route 1", "3 steps", "3. Amide formation", "K₂CO₃, MeCN", "80 %, forward agrees", "benzoic acid"):
        assert part in said, part
    assert "US06765005B2 (2004)" in said and "12 EUR/g" in said and "no yield" in said
    assert QUESTION in said.replace(" ", "")


LONG = Route(made("C" * 70 + "O", Node("C" * 70 + "Cl", "common")))  # in no line at full size


@pytest.mark.parametrize(
    "route", [chain(1), BRANCHED, chain(5), chain(20), LONG], ids=["one", "branched", "five", "twenty", "long"]
)
def test_everything_lies_inside_the_page_and_texts_do_not_overlap(route: Route) -> None:
    picture = to_postcard(route, "Route 1", {}, QUESTION)
    font, boxes = sans(), []
    for item in picture.items:
        width = font.width(item.text, item.size) if item.text else item.width
        left = item.side - width * {"start": 0, "middle": 0.5, "end": 1}[item.anchor] if item.text else item.left
        sides = [*item.corners] or [(left, item.top), (left + width, item.top + item.height)]
        assert all(EDGE - 1 <= x <= WIDTH - EDGE + 1 and 0 <= y <= HEIGHT for x, y in sides), item.text
        if item.text:
            boxes.append((left, item.top, left + width, item.top + item.height))
    for number, (left, top, right, low) in enumerate(boxes):
        for other in boxes[:number]:
            assert not (left < other[2] - 1 and other[0] < right - 1 and top < other[3] - 1 and other[1] < low - 1)


def test_a_small_molecule_takes_no_more_room_than_its_caption() -> None:
    items = to_postcard(Route(made("CO", Node("CBr", "common"))), "Route 1").items
    (caption,) = [item for item in items if item.text == "methanol" and item.anchor == "middle"]
    tip = max(x for item in items for x, _ in item.corners)
    assert caption.side - tip < 5.8 * caption.size, "the arrow ends beside the word"


def test_names_of_others_do_no_harm_in_any_format() -> None:
    svg = postcard_file("svg", BRANCHED, f"Route {EVIL}", EVIDENCE, QUESTION).decode()
    tree = ElementTree.fromstring(svg)
    assert {element.tag.rpartition("}")[2] for element in tree.iter()} <= {
        *("svg", "title", "style", "rect", "g", "path", "text", "polygon")
    }
    assert "Endmark ?? ü" in " ".join(filter(None, (element.text for element in tree.iter())))
    assert "http" not in re.sub(r"xmlns(:\w+)?=.http[^'\"]*", "", svg), "nothing is loaded"
    assert "@font-face" in svg and svg.count("<text ") == svg.count("textLength")
    pdf = postcard_file("pdf", BRANCHED, f"Route {EVIL}", EVIDENCE, QUESTION)
    assert pdf == postcard_file("pdf", BRANCHED, f"Route {EVIL}", EVIDENCE, QUESTION), "without a date"
    assert b"<script" not in pdf and b"/JS" not in pdf and b"/URI" not in pdf
    cdxml = depict.to_cdxml(BRANCHED, {name: Found(1, 1, (), (Conditions("CC\0<x>", 1),)) for name in EVIDENCE})
    assert len([*ElementTree.fromstring(cdxml).iter("step")]) == 3


def test_a_molecule_too_large_for_chemdraw_is_named_as_the_reason(tmp_path: Path) -> None:
    large = Route(made("C" * 301 + "O", Node("C" * 301 + "Cl", "")))
    assert depict.has_large_molecule(large) and not depict.has_large_molecule(BRANCHED)
    file = PlanFile(tmp_path / "route.cdxml")
    assert file.missing == "there is no route to draw"
    file.add(SimpleNamespace(routes=[large], target="C"), {})  # type: ignore[arg-type]
    assert file.missing == "a molecule of the route has more than 300 atoms"


def pdf_texts(pdf: bytes) -> str:
    """The texts of a PDF, as a reader finds them by the map from glyphs to characters."""
    streams = [zlib.decompress(part) for part in re.findall(rb"stream\n(.*?)\nendstream", pdf, re.DOTALL)]
    (page,) = (part.decode() for part in streams if b" Tj" in part)
    (meaning,) = (part.decode() for part in streams if b"beginbfchar" in part)
    letters = {
        code: bytes.fromhex(text).decode("utf-16-be") for code, text in re.findall(r"<(\w+)> <(\w+)>\n", meaning)
    }
    words = (
        "".join(letters[code[k : k + 4]] for k in range(0, len(code), 4)) for code in re.findall(r"<(\w+)> Tj", page)
    )
    assert sans().data in streams, "the font is in the file"
    return " ".join(words)


def test_texts_of_the_pdf_can_be_selected_and_its_table_is_right() -> None:
    pdf = postcard_file("pdf", BRANCHED, "Route 1", EVIDENCE, QUESTION)
    assert pdf_texts(pdf) == texts(to_postcard(BRANCHED, "Route 1", EVIDENCE, QUESTION))
    offsets = [int(row) for row in re.findall(rb"(\d{10}) 00000 n", pdf)]
    assert all(pdf[at:].startswith(b"%d 0 obj" % number) for number, at in enumerate(offsets, 1))
    assert re.search(rb"/MediaBox\[0 0 595.28 419.53\]", pdf)


def test_the_code_on_the_picture_is_the_question() -> None:
    png = Image.open(BytesIO(postcard_file("png", BRANCHED, "Route 1", EVIDENCE, QUESTION)))
    assert [round(side / DPI * 25.4) for side in png.size] == [210, 148] and round(png.info["dpi"][0]) == DPI
    (code,) = (item for item in to_postcard(BRANCHED, "", {}, QUESTION).items if getattr(item.molecule, "text", ""))
    matrix = segno.make(QUESTION, error="m", micro=False, boost_error=False).matrix
    side, scale = code.width / len(matrix), DPI / 72
    for y, row in enumerate(matrix):
        for x, dark in enumerate(row):
            at = scale * (code.left + (x + 0.5) * side), scale * (code.top + (y + 0.5) * side)
            assert (png.getpixel((round(at[0]), round(at[1])))[0] < 128) == bool(dark)


def test_a_question_too_long_for_a_code_is_told_so() -> None:
    said = texts(to_postcard(BRANCHED, "Route 1", {}, plan_question(AMIDE) + "&avoid=C" * 200))
    assert "Too long for a QR code" in said and "…" in said


def test_chemdraw_and_we_read_a_route_back() -> None:
    text = depict.to_cdxml(BRANCHED, EVIDENCE)
    assert [
        (reaction.GetNumReactantTemplates(), reaction.GetNumProductTemplates())
        for reaction in rdChemReactions.ReactionsFromCDXMLBlock(text)
    ] == [(1, 1), (1, 1), (2, 1)]
    root = chemdraw.parse_cdxml(text)
    assert not isinstance(root, chem.Fault)
    for node, part in zip(BRANCHED.steps, chemdraw.split_steps(root, 9), strict=True):
        read = read_input(part, task="retro")
        assert isinstance(read, Input) and read.smiles == node.smiles and node.step
        assert {*node.step.reactants} <= {*read.other.split(".")}
    assert "CC#N" in read.other.split("."), "the conditions over the arrow of the last step"
    assert "Step 3: Amide formation, 80 %, forward agrees" in text


@pytest.mark.parametrize(
    ("number", "year"),
    [
        *(("US03930836", "1976"), ("US04000000", "1976"), ("US05003186", "1991"), ("US06000000", "1999")),
        *(("US06574628B1", "2003"), ("US07707039B2", "2010"), ("US08000000B2", "2011"), ("US09000000B2", "2015")),
        *(("US10000000B2", "2018"), ("US20100317582A1", "2010"), ("US99999999", ""), ("US01000001", ""), ("x", "")),
    ],
)
def test_the_year_of_a_patent_follows_from_its_number(number: str, year: str) -> None:
    assert patent_year(number) == year


def test_an_arrow_with_nothing_above_it_takes_no_room_for_molecules() -> None:
    node = made(AMIDE, Node(ACID), Node("N"))
    bare, laden = (postcard._arrow(node, needed, Route(node), {}, 1.0) for needed in ((), (Node("N", "common"),)))
    assert bare.above == 5.0 < laden.above
