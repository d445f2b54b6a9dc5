"""Deliberately broken servers of the store."""

from semcast.families.testing import MutantTable

MUTANTS = MutantTable()
