"""The source stays as small as it is: a count that grows past its bar fails."""

import pytest

import house


def test_size():
    assert {what: count for what, count in house.size().items() if count > house.BARS[what]} == {}


def test_no_private_name_crosses_rooms():
    assert house.private_imports() == []


@pytest.mark.parametrize("use", house.USES)
def test_doors(use):
    assert len(house.doors(use)) <= house.BARS[use]
