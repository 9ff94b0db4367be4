"""Read what was typed, pasted or uploaded, in any format, as one query for a model."""

from chemspec.chem.read.reader import LARGEST as LARGEST
from chemspec.chem.read.reader import read_any as read_any
from chemspec.chem.read.values import OTHER_SIDE as OTHER_SIDE
from chemspec.chem.read.values import Input as Input
