"""Chemistry as plain values: queries and molecules, reactions, file formats."""

from chemspec.chem.molecules.query import ARROW as ARROW
from chemspec.chem.molecules.query import ARROW_HEAD as ARROW_HEAD
from chemspec.chem.molecules.query import LEFT_OUT as LEFT_OUT
from chemspec.chem.molecules.query import MAX_LENGTH as MAX_LENGTH
from chemspec.chem.molecules.query import NO_REACTION as NO_REACTION
from chemspec.chem.molecules.query import Fault as Fault
from chemspec.chem.molecules.query import Query as Query
from chemspec.chem.molecules.query import atom_tokens as atom_tokens
from chemspec.chem.molecules.query import canonical as canonical
from chemspec.chem.molecules.query import canonical_parts as canonical_parts
from chemspec.chem.molecules.query import drop_stereo as drop_stereo
from chemspec.chem.molecules.query import elements as elements
from chemspec.chem.molecules.query import explain as explain
from chemspec.chem.molecules.query import formula_balance as formula_balance
from chemspec.chem.molecules.query import heavy_atoms as heavy_atoms
from chemspec.chem.molecules.query import is_same_token as is_same_token
from chemspec.chem.molecules.query import is_valid as is_valid
from chemspec.chem.molecules.query import main_product as main_product
from chemspec.chem.molecules.query import pointer as pointer
from chemspec.chem.molecules.query import read_query as read_query
from chemspec.chem.molecules.query import same_molecules as same_molecules
