"""Read cells of price lists: price, currency and amount in any national format; what is not understood is no price."""

import re
from dataclasses import dataclass
from math import isfinite

from chemspec.io.columns import with_unit_signs

CURRENCIES = {
    "€": "EUR",
    "$": "USD",
    "US$": "USD",
    "£": "GBP",
    "￥": "¥",  # of China and of Japan
    "元": "CNY",
    "円": "JPY",
    "₹": "INR",
}
CODES = "EUR|USD|GBP|CHF|JPY|CNY|RMB|INR|CAD|AUD|SEK|DKK|NOK|PLN|KRW|SGD"
MONEY = re.compile(
    rf"(?<![A-Za-z])(?:{CODES})(?![A-Za-z])|US\$|[€$£¥￥元円₹]|(?<![A-Za-z])(?:Fr|SFr)\.?(?![A-Za-z])", re.IGNORECASE
)
_MARKS = "'\u2018\u2019\u02bc\u00b4`"  # between thousands in Switzerland
_BLANKS = " \u00a0\u2009\u202f"
_NUMBER = rf"[0-9](?:[0-9.,{_MARKS}{_BLANKS}]*[0-9])?(?:[eE][+-]?[0-9]{{1,4}})?(?:[.,]?(?:[–—-]{{1,2}})(?!\s*\d))?"
_SCALE = {"k": 1e3, "K": 1e3, "T": 1e3, "M": 1e6, "Mio": 1e6, "mio": 1e6}
_PRICE = re.compile(rf"(?P<number>{_NUMBER})\s*(?P<scale>k|K|T|M|[Mm]io\.?)?(?:(?![A-Za-z\d])|(?=e\b))")
_RANGE = re.compile(rf"(?P<low>{_NUMBER})\s*(?:-|–|—|\.\.\.?|to|bis|à|~)\s*(?=\d)")
_LIMIT = re.compile(r"[<>≤≥]|\b(?:up to|from|ab|from:|as of|starting|min|max|under|over|less|more)\b", re.IGNORECASE)
_AMOUNT = r"[\d.,]*\s*(?:[munkµμ]?[gGlLM]|[Kk]g|[mM][lL]|mol|mmol|µmol|pcs?|each|ea|vial|unit|pack)"
_PER = re.compile(rf"(?:/|\b(?:per|for|je|pro|par|por|au|al|le)\b)\s*({_AMOUNT})\b", re.IGNORECASE)
_OF_PACK = re.compile(rf"\(\s*(?=\d)({_AMOUNT})\s*\)|^\s*(?=\d)({_AMOUNT})\s*[:=]", re.IGNORECASE)  # 15 EUR (5 g)
_HEADING_AMOUNT = re.compile(r"(?<![A-Za-z\d])(\d[\d.,]*\s?(?:[munkµ]?g|[munkµ]?[lL]|m?mol))(?![A-Za-z])")
_WORDS = re.compile(
    r"\b(?:price|prix|preis|list|net|netto|each|ea|excl|incl|plus|vat|mwst|approx|ca|about)\b\.?|^\s*e\s*$|[≈~()\[\]:;*]",
    re.IGNORECASE,
)
_PACK = re.compile(_AMOUNT, re.IGNORECASE)
MAX_SHOWN = 40  # characters shown of a unit or a cell
MAX_PRICE_CHARS = 500  # more than any number of a program has


@dataclass(frozen=True)
class Price:
    """A price, None if the cell holds none; a unit such as EUR/5 g; and what is wrong with the cell."""

    value: float | None
    unit: str = ""
    fault: str = ""


def read_price(text: str, heading: str = "", currency: str = "", amount: str = "") -> Price:
    """Read the price of a cell, with the heading of its column and the cells for currency and pack size."""
    shown, heading = text[:MAX_SHOWN], with_unit_signs(heading.replace("_", " "))
    if not text:
        return Price(None)
    if len(text) > MAX_PRICE_CHARS:
        return Price(None, fault=f"no price in {shown!r}, which goes on for {len(text):,} characters")
    if (
        text.startswith(("-", "\u2212", "\u2013"))
        or not re.search("[0-9]", text)
        or re.search(r"[^\W0-9A-Za-z_]", "".join(filter(str.isdigit, text)))
    ):
        return Price(None, fault=f"no price in {shown!r}")
    if _LIMIT.search(text):
        return Price(None, fault=f"no price in {shown!r}, which is a limit")
    spaced = _OF_PACK.sub(r" per \1\2 ", with_unit_signs(text.replace("_", " ")))
    money = next((match[0] for source in (text, currency, heading, amount) if (match := MONEY.search(source))), "")
    per = next((match[1] for source in (spaced, heading, amount) if (match := _PER.search(source))), "")
    bare = MONEY.sub(" ", _PER.sub(" ", spaced)).strip()
    if _RANGE.search(bare):
        return Price(None, fault=f"no price in {shown!r}, which is a range")
    number = _PRICE.search(bare)
    rest = _WORDS.sub(" ", f"{bare[: number.start()]} {bare[number.end() :]}") if number else ""
    value = parse_number(number["number"]) if number else None
    if number is None or value is None or rest.strip(" .,-–—"):
        return Price(None, fault=f"no price in {shown!r}")
    unit = _unit(money, per or _pack(heading, amount))
    return Price(value * _SCALE.get((number["scale"] or "").rstrip("."), 1.0), unit)


def _pack(heading: str, amount: str) -> str:
    """Return the amount that a price is for: of the heading, or of a cell of its own."""
    if match := _HEADING_AMOUNT.search(heading):
        return re.sub(r"(?<=\d)(?=[A-Za-zµ])", " ", match[1])
    if heading.strip().lower() == "ppg":
        return "g"
    return amount if _PACK.fullmatch(amount.strip()) else ""


def _unit(money: str, per: str) -> str:
    plain = money.upper().rstrip(".")
    code = {"RMB": "CNY", "FR": "CHF", "SFR": "CHF"}.get(plain, CURRENCIES.get(money, plain))
    amount = per.strip()
    return "/".join(filter(None, (code, amount)))[:MAX_SHOWN] if code else f"per {amount}"[:MAX_SHOWN] if amount else ""


def parse_number(text: str) -> float | None:
    """Parse a number in any national format: 1,250.00 and 1.250,00 and 12,5 and 1’234.50 and 1.2e3."""
    mantissa, _, exponent = re.sub(rf"[{_MARKS}{_BLANKS}]", "", text).lower().partition("e")
    digits = mantissa.rstrip("–—-").strip(".,")
    comma, point = digits.rfind(","), digits.rfind(".")
    if comma > point and (point >= 0 or exponent or len(digits) - comma != 4):
        digits = digits.translate(str.maketrans(".,", ",."))
    if digits.count(".") > 1 and "," not in digits:  # thousands: 1.234.567
        digits = digits.replace(".", ",")
    if not re.fullmatch(r"[0-9]+(?:\.[0-9]+)?|[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", digits):
        return None
    number = float(f"{digits.replace(',', '')}e{exponent or 0}")
    return number if isfinite(number) else None
