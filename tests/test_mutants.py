"""tests/mutants.txt: every bug in it can still be written, so that `make mutants` measures them."""

import mutants
import pytest

CATALOGUE = mutants.read_catalogue(mutants.CATALOGUE.read_text())


def test_there_are_enough_of_them() -> None:
    assert len(CATALOGUE) >= 20
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_it_changes_one_place_of_the_product(mutant: mutants.Mutant) -> None:
    text = mutant.path().read_text()
    assert mutant.bug
    assert mutant.applied(text) != text


def test_layout_and_comments_do_not_matter() -> None:
    mutant = mutants.Mutant("m", "x.cc", "it is one more", "a = b; return a;", "return b;")
    assert mutant.applied("  a =\n b;  // why\n  return a;\n") == "  return b;\n"
    with pytest.raises(ValueError, match="0 times"):
        mutant.applied("a = c; return a;")
    with pytest.raises(ValueError, match="2 times"):
        mutant.applied("a = b; return a; a = b; return a;")
