"""Chemistry as plain values: queries and molecules, reactions, file formats."""

from chemspec.chem.query import ARROW as ARROW
from chemspec.chem.query import ARROW_HEAD as ARROW_HEAD
from chemspec.chem.query import LEFT_OUT as LEFT_OUT
from chemspec.chem.query import LONGEST as LONGEST
from chemspec.chem.query import NO_REACTION as NO_REACTION
from chemspec.chem.query import Fault as Fault
from chemspec.chem.query import Query as Query
from chemspec.chem.query import atom_tokens as atom_tokens
from chemspec.chem.query import canonical as canonical
from chemspec.chem.query import canonical_parts as canonical_parts
from chemspec.chem.query import drop_stereo as drop_stereo
from chemspec.chem.query import elements as elements
from chemspec.chem.query import explain as explain
from chemspec.chem.query import formula_balance as formula_balance
from chemspec.chem.query import heavy_atoms as heavy_atoms
from chemspec.chem.query import is_same_token as is_same_token
from chemspec.chem.query import is_valid as is_valid
from chemspec.chem.query import main_product as main_product
from chemspec.chem.query import pointer as pointer
from chemspec.chem.query import read_query as read_query
from chemspec.chem.query import same_molecules as same_molecules
