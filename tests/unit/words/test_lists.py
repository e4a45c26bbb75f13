"""Lists and numbers read as English."""

import pytest

from nccldoctor.words import lists, numbers


@pytest.mark.parametrize(
    ("items", "joined"), [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")]
)
def test_a_list_ends_with_and(items, joined):
    assert lists.and_list(items) == joined
    assert lists.or_list(items) == joined.replace(" and ", " or ")


def test_one_item_stands_in_the_singular_and_thousands_have_a_comma():
    assert numbers.plural(1, "file") == "1 file"
    assert numbers.plural(1024, "file") == "1,024 files"
