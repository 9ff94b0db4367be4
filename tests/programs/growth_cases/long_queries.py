"""Long queries: passes and seconds of chains of amides, beams and variants of one, and answers cut by the default."""

import time

import chemspec
from chemspec.settings import DecodeSettings


def chain(amides: int) -> str:
    """Return a chain of 14 tokens and 7 more for each amide."""
    return "CC(=O)N" + amides * "CC(=O)N" + "c1ccccc1"


def main() -> None:
    engine = chemspec.load("retro", dtype="int8", threads=1)
    engine.predict([chain(0)], DecodeSettings(n=5))
    texts = []
    for amides in (1, 12, 26):
        for name, settings in {
            "": DecodeSettings(n=5, max_len=600),
            **({"beam of 50 ": DecodeSettings(n=50, max_len=600)} if amides == 1 else {}),
            **({"20 variants ": DecodeSettings(n=5, max_len=600, augment=20)} if amides == 1 else {}),
        }.items():
            began = time.process_time()
            result = engine.predict([chain(amides)], settings)[0]
            seconds, passes = time.process_time() - began, len(result.trace.passes)
            texts.append(f"{name}{len(result.trace.query)} tokens {passes} passes {seconds:.2f} s")
    results = engine.predict([chain(40)], DecodeSettings(n=5))
    cut = sum(answer.ended == "length" for answer in results[0].hypotheses)
    texts.append(f"{len(results[0].trace.query)} tokens, default length: {cut} of 5 answers cut")
    print("; ".join(texts))


if __name__ == "__main__":
    main()
