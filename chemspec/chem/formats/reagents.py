"""SMILES of common reagents and solvents, for those who type conditions as they would write them.

A small table made by hand. Names that mean two things to two chemists are left out (IPA, DIC, DMP).
"""

from __future__ import annotations

import re
from functools import lru_cache

_DASHES = "-\N{HYPHEN}\N{NON-BREAKING HYPHEN}\N{EN DASH}"

# SMILES, then the names, parted by |; the first is the full one. Case, blanks and hyphens do not count.
_TABLE = """
O  water | H2O | distilled water
CO  methanol | MeOH | methyl alcohol
CCO  ethanol | EtOH | ethyl alcohol
CC(C)O  isopropanol | iPrOH | 2-propanol | isopropyl alcohol | propan-2-ol
CCCO  1-propanol | nPrOH | n-propanol | propan-1-ol
CCCCO  1-butanol | nBuOH | n-butanol | butan-1-ol
CC(C)(C)O  tert-butanol | tBuOH | 2-methyl-2-propanol
OCCO  ethylene glycol
OC(C(F)(F)F)C(F)(F)F  hexafluoroisopropanol | HFIP
OCC(F)(F)F  trifluoroethanol | TFE
OCc1ccccc1  benzyl alcohol | BnOH
CN(C)C=O  dimethylformamide | DMF | N,N-dimethylformamide
CN(C)C(C)=O  dimethylacetamide | DMAc | N,N-dimethylacetamide
CS(C)=O  dimethyl sulfoxide | DMSO
CN1CCCC1=O  N-methyl-2-pyrrolidone | NMP | N-methylpyrrolidone
C1CCOC1  tetrahydrofuran | THF
CC1CCCO1  2-methyltetrahydrofuran | 2-MeTHF | MeTHF
C1COCCO1  1,4-dioxane | dioxane
CCOCC  diethyl ether | Et2O | ether
COC(C)(C)C  methyl tert-butyl ether | MTBE | TBME
COCCOC  dimethoxyethane | DME | 1,2-dimethoxyethane | glyme
COC1CCCC1  cyclopentyl methyl ether | CPME
ClCCl  dichloromethane | DCM | CH2Cl2 | methylene chloride
ClC(Cl)Cl  chloroform | CHCl3
ClC(Cl)(Cl)Cl  carbon tetrachloride | CCl4
ClCCCl  1,2-dichloroethane | DCE | dichloroethane
CC#N  acetonitrile | MeCN | CH3CN | ACN
CC(C)=O  acetone
CCC(C)=O  butanone | MEK | 2-butanone
CCOC(C)=O  ethyl acetate | EtOAc | AcOEt
CC(C)OC(C)=O  isopropyl acetate | iPrOAc
c1ccccc1  benzene | PhH
Cc1ccccc1  toluene | PhMe
Clc1ccccc1  chlorobenzene | PhCl
CCCCCC  hexane | n-hexane
CCCCCCC  heptane | n-heptane
C1CCCCC1  cyclohexane
CN(C)P(=O)(N(C)C)N(C)C  hexamethylphosphoramide | HMPA
C[N+](=O)[O-]  nitromethane | MeNO2
CCN(CC)CC  triethylamine | TEA | Et3N | NEt3
CCN(C(C)C)C(C)C  diisopropylethylamine | DIPEA | Hunig's base | iPr2NEt | N,N-diisopropylethylamine
c1ccncc1  pyridine | pyr
Cc1cccc(C)n1  2,6-lutidine | lutidine
CN(C)c1ccncc1  4-dimethylaminopyridine | DMAP
CN1CCOCC1  N-methylmorpholine | NMM
C1CCC2=NCCCN2CC1  DBU | 1,8-diazabicyclo[5.4.0]undec-7-ene
C1CN2CCN1CC2  DABCO | 1,4-diazabicyclo[2.2.2]octane
c1c[nH]cn1  imidazole
C1CCNCC1  piperidine
C1CCNC1  pyrrolidine
C1COCCN1  morpholine
CNC  dimethylamine | Me2NH
CN  methylamine | MeNH2
CCNCC  diethylamine | Et2NH
NCc1ccccc1  benzylamine | BnNH2
Nc1ccccc1  aniline | PhNH2
N  ammonia | NH3
[NH4+].[OH-]  ammonium hydroxide | NH4OH
[Cl-].[NH4+]  ammonium chloride | NH4Cl
CC(=O)[O-].[NH4+]  ammonium acetate | NH4OAc
NN  hydrazine | N2H4
NN.O  hydrazine hydrate
NO  hydroxylamine | NH2OH
Cl.NO  hydroxylamine hydrochloride | NH2OH.HCl
[Na+].[OH-]  sodium hydroxide | NaOH
[K+].[OH-]  potassium hydroxide | KOH
[Li+].[OH-]  lithium hydroxide | LiOH
O=C([O-])[O-].[K+].[K+]  potassium carbonate | K2CO3
O=C([O-])[O-].[Na+].[Na+]  sodium carbonate | Na2CO3
O=C([O-])[O-].[Cs+].[Cs+]  caesium carbonate | Cs2CO3 | cesium carbonate
O=C([O-])O.[Na+]  sodium bicarbonate | NaHCO3 | sodium hydrogencarbonate
O=P([O-])([O-])[O-].[K+].[K+].[K+]  tripotassium phosphate | K3PO4 | potassium phosphate
CC(=O)[O-].[Na+]  sodium acetate | NaOAc
CC(=O)[O-].[K+]  potassium acetate | KOAc
[F-].[Cs+]  caesium fluoride | CsF | cesium fluoride
[F-].[K+]  potassium fluoride | KF
[I-].[Na+]  sodium iodide | NaI
[I-].[K+]  potassium iodide | KI
[C-]#N.[Na+]  sodium cyanide | NaCN
[C-]#N.[K+]  potassium cyanide | KCN
[C-]#N.[C-]#N.[Zn+2]  zinc cyanide | Zn(CN)2
[N-]=[N+]=[N-].[Na+]  sodium azide | NaN3
[H-].[Na+]  sodium hydride | NaH
CC(C)(C)[O-].[K+]  potassium tert-butoxide | KOtBu | tBuOK
CC(C)(C)[O-].[Na+]  sodium tert-butoxide | NaOtBu | tBuONa
C[O-].[Na+]  sodium methoxide | NaOMe
CC[O-].[Na+]  sodium ethoxide | NaOEt
[Li]CCCC  n-butyllithium | nBuLi | BuLi
[Li]C(C)(C)C  tert-butyllithium | tBuLi
CC(C)[N-]C(C)C.[Li+]  lithium diisopropylamide | LDA
C[Si](C)(C)[N-][Si](C)(C)C.[Li+]  lithium bis(trimethylsilyl)amide | LiHMDS
C[Si](C)(C)[N-][Si](C)(C)C.[Na+]  sodium bis(trimethylsilyl)amide | NaHMDS
C[Si](C)(C)[N-][Si](C)(C)C.[K+]  potassium bis(trimethylsilyl)amide | KHMDS
C[Mg]Br  methylmagnesium bromide | MeMgBr
CC[Mg]Br  ethylmagnesium bromide | EtMgBr
Br[Mg]c1ccccc1  phenylmagnesium bromide | PhMgBr
CC(C)[Mg]Cl  isopropylmagnesium chloride | iPrMgCl
[BH4-].[Na+]  sodium borohydride | NaBH4
[BH4-].[Li+]  lithium borohydride | LiBH4
[BH3-]C#N.[Na+]  sodium cyanoborohydride | NaBH3CN | NaCNBH3
CC(=O)O[BH-](OC(C)=O)OC(C)=O.[Na+]  sodium triacetoxyborohydride | NaBH(OAc)3 | STAB
[AlH4-].[Li+]  lithium aluminium hydride | LiAlH4 | LAH | lithium aluminum hydride
CC(C)C[AlH]CC(C)C  diisobutylaluminium hydride | DIBAL | DIBAL-H
CC[SiH](CC)CC  triethylsilane | Et3SiH
[H][H]  hydrogen | H2
C1CCOC1.B  borane tetrahydrofuran | BH3.THF | BH3-THF
CSC.B  borane dimethyl sulfide | BH3.SMe2 | BH3-SMe2
Cl  hydrochloric acid | HCl | hydrogen chloride
Br  hydrobromic acid | HBr | hydrogen bromide
F  hydrofluoric acid | HF | hydrogen fluoride
O=S(=O)(O)O  sulfuric acid | H2SO4
O=[N+]([O-])O  nitric acid | HNO3
O=P(O)(O)O  phosphoric acid | H3PO4
CC(=O)O  acetic acid | AcOH | HOAc
O=CO  formic acid | HCOOH | HCO2H
O=C(O)C(F)(F)F  trifluoroacetic acid | TFA | CF3COOH | CF3CO2H
Cc1ccc(S(=O)(=O)O)cc1  p-toluenesulfonic acid | TsOH | pTsOH | PTSA
CS(=O)(=O)O  methanesulfonic acid | MsOH
O=S(=O)(O)C(F)(F)F  triflic acid | TfOH
CC1(C)C2CCC1(CS(=O)(=O)O)C(=O)C2  camphorsulfonic acid
Cc1ccc(S(=O)(=O)[O-])cc1.c1cc[nH+]cc1  pyridinium p-toluenesulfonate | PPTS
FB(F)F  boron trifluoride | BF3
CCOCC.FB(F)F  boron trifluoride etherate | BF3.OEt2 | BF3-OEt2 | BF3.Et2O
BrB(Br)Br  boron tribromide | BBr3
[Al+3].[Cl-].[Cl-].[Cl-]  aluminium chloride | AlCl3 | aluminum chloride
Cl[Ti](Cl)(Cl)Cl  titanium tetrachloride | TiCl4
CC(C)(C)OC(=O)OC(=O)OC(C)(C)C  di-tert-butyl dicarbonate | Boc2O | Boc anhydride
O=C(Cl)OCc1ccccc1  benzyl chloroformate | CbzCl
O=C(Cl)OCC1c2ccccc2-c2ccccc21  Fmoc chloride | FmocCl
CC(=O)OC(C)=O  acetic anhydride | Ac2O
CC(=O)Cl  acetyl chloride | AcCl
O=C(Cl)c1ccccc1  benzoyl chloride | BzCl
CS(=O)(=O)Cl  methanesulfonyl chloride | MsCl | mesyl chloride
Cc1ccc(S(=O)(=O)Cl)cc1  tosyl chloride | TsCl | p-toluenesulfonyl chloride
O=S(=O)(OS(=O)(=O)C(F)(F)F)C(F)(F)F  triflic anhydride | Tf2O
O=C(OC(=O)C(F)(F)F)C(F)(F)F  trifluoroacetic anhydride | TFAA
O=C(Cl)C(=O)Cl  oxalyl chloride | (COCl)2
O=S(Cl)Cl  thionyl chloride | SOCl2
O=P(Cl)(Cl)Cl  phosphorus oxychloride | POCl3 | phosphoryl chloride
ClP(Cl)(Cl)(Cl)Cl  phosphorus pentachloride | PCl5
BrP(Br)Br  phosphorus tribromide | PBr3
C[Si](C)(C)Cl  trimethylsilyl chloride | TMSCl
CC(C)(C)[Si](C)(C)Cl  tert-butyldimethylsilyl chloride | TBSCl | TBDMSCl
CC(C)[Si](Cl)(C(C)C)C(C)C  triisopropylsilyl chloride | TIPSCl
C[Si](C)(C)I  trimethylsilyl iodide | TMSI
C[Si](C)(C)C#N  trimethylsilyl cyanide | TMSCN
CCCC[N+](CCCC)(CCCC)CCCC.[F-]  tetrabutylammonium fluoride | TBAF
CCCC[N+](CCCC)(CCCC)CCCC.[Br-]  tetrabutylammonium bromide | TBAB
CI  methyl iodide | MeI | iodomethane
CCI  ethyl iodide | EtI | iodoethane
COS(=O)(=O)OC  dimethyl sulfate | Me2SO4
BrCc1ccccc1  benzyl bromide | BnBr
C=CCBr  allyl bromide
C[Si](C)(C)C=[N+]=[N-]  trimethylsilyldiazomethane | TMSCHN2
CN(C)C(On1nnc2cccnc21)=[N+](C)C.F[P-](F)(F)(F)(F)F  HATU
CN(C)C(On1nnc2ccccc21)=[N+](C)C.F[P-](F)(F)(F)(F)F  HBTU
CN(C)C(On1nnc2ccccc21)=[N+](C)C.F[B-](F)(F)F  TBTU
CCN=C=NCCCN(C)C  EDC | EDCI
CCN=C=NCCCN(C)C.Cl  EDC hydrochloride | EDC.HCl | EDC HCl
C(=NC1CCCCC1)=NC1CCCCC1  dicyclohexylcarbodiimide | DCC
CC(C)N=C=NC(C)C  diisopropylcarbodiimide
On1nnc2ccccc21  hydroxybenzotriazole | HOBt
On1nnc2cccnc21  HOAt
O=C(n1ccnc1)n1ccnc1  carbonyldiimidazole | CDI
CCCP1(=O)OP(=O)(CCC)OP(=O)(CCC)O1  propylphosphonic anhydride | T3P
F[P-](F)(F)(F)(F)F.c1ccc2c(c1)nnn2O[P+](N1CCCC1)(N1CCCC1)N1CCCC1  PyBOP
O=C1CCC(=O)N1Br  N-bromosuccinimide | NBS
O=C1CCC(=O)N1Cl  N-chlorosuccinimide | NCS
O=C1CCC(=O)N1I  N-iodosuccinimide | NIS
BrBr  bromine | Br2
II  iodine | I2
ClCl  chlorine | Cl2
O=C(OO)c1cccc(Cl)c1  m-chloroperbenzoic acid | mCPBA | 3-chloroperbenzoic acid
OO  hydrogen peroxide | H2O2
CC(C)(C)OO  tert-butyl hydroperoxide | TBHP
CC(=O)OI1(OC(C)=O)(OC(C)=O)OC(=O)c2ccccc21  Dess-Martin periodinane
O=C1OI(=O)(O)c2ccccc21  2-iodoxybenzoic acid | IBX
O=[Mn]=O  manganese dioxide | MnO2
[K+].[O-][Mn](=O)(=O)=O  potassium permanganate | KMnO4
O=[Cr](=O)([O-])Cl.c1cc[nH+]cc1  pyridinium chlorochromate | PCC
CC1(C)CCCC(C)(C)N1[O]  TEMPO
N#CC1=C(C#N)C(=O)C(Cl)=C(Cl)C1=O  DDQ
CC(C)(C#N)N=NC(C)(C)C#N  azobisisobutyronitrile | AIBN
c1ccc(P(c2ccccc2)c2ccccc2)cc1  triphenylphosphine | PPh3 | Ph3P
CCOC(=O)N=NC(=O)OCC  diethyl azodicarboxylate | DEAD
CC(C)OC(=O)N=NC(=O)OC(C)C  diisopropyl azodicarboxylate | DIAD
[N-]=[N+]=NP(=O)(Oc1ccccc1)Oc1ccccc1  diphenylphosphoryl azide | DPPA
COc1ccc(P2(=S)SP(=S)(c3ccc(OC)cc3)S2)cc1  Lawesson's reagent
[Pd]  palladium | Pd | Pd/C | palladium on carbon
CC(=O)[O-].CC(=O)[O-].[Pd+2]  palladium acetate | Pd(OAc)2 | palladium(II) acetate
c1ccc([P](c2ccccc2)(c2ccccc2)[Pd]([P](c2ccccc2)(c2ccccc2)c2ccccc2)([P](c2ccccc2)(c2ccccc2)c2ccccc2)[P](c2ccccc2)(c2ccccc2)c2ccccc2)cc1  tetrakis(triphenylphosphine)palladium | Pd(PPh3)4
Cl[Pd](Cl)([P](c1ccccc1)(c1ccccc1)c1ccccc1)[P](c1ccccc1)(c1ccccc1)c1ccccc1  Pd(PPh3)2Cl2 | PdCl2(PPh3)2
[Cu]I  copper iodide | CuI | copper(I) iodide
[Cu]Br  copper bromide | CuBr | copper(I) bromide
[Fe]  iron
[Zn]  zinc
[Mg]  magnesium
CC1(C)OB(B2OC(C)(C)C(C)(C)O2)OC1(C)C  bis(pinacolato)diboron | B2pin2
OB(O)c1ccccc1  phenylboronic acid | PhB(OH)2
C=O  formaldehyde | HCHO
O=Cc1ccccc1  benzaldehyde | PhCHO
CCOC(OCC)OCC  triethyl orthoformate
COC(OC)N(C)C  DMF dimethyl acetal | DMF-DMA
O=C(Cl)OC(Cl)(Cl)Cl  diphosgene
O=C(OC(Cl)(Cl)Cl)OC(Cl)(Cl)Cl  triphosgene
[C-]#[O+]  carbon monoxide
O=C=O  carbon dioxide | CO2
NC(N)=O  urea
NC(N)=S  thiourea
"""


def find(name: str) -> tuple[str, str] | None:
    """SMILES and full name of a reagent; None if it is not in the table."""
    return _names().get(_key(name))


@lru_cache(maxsize=1)
def _names() -> dict[str, tuple[str, str]]:
    table = {}
    for line in _TABLE.strip().splitlines():
        smiles, names = line.split("  ", 1)
        full = names.split(" | ")[0]
        for name in names.split(" | "):
            table[_key(name)] = smiles, full
    return table


def _key(name: str) -> str:
    bare = "".join(char for char in name if not (char.isspace() or char in _DASHES))
    # Hf is hafnium, HF is not.
    return bare if re.fullmatch("[A-Z][a-z]", bare) else bare.casefold()
