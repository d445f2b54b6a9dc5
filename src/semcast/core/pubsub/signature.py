"""What thousands of numbers come down to in gossip: one 64-bit sum.

Two processes whose signatures agree know the same, with an error of about 2⁻⁶⁴.  A signature is a
sum of hashes, so a change costs two of them however much is known, and a part of the whole can be
taken out again.
Departs: [RPB §5.1] hashes the whole list at once; a sum needs no pass over it.
"""

from functools import lru_cache

MASK = (1 << 64) - 1


@lru_cache(maxsize=1 << 16)
def fact_hash(subject: int, value: int) -> int:
    """A hash of one fact, the same in every process."""
    x = (subject * 0x9E3779B97F4A7C15 + value * 0xD1B54A32D192ED03 + 0x2545F4914F6CDD1D) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)
