"""Pictures show the pages as they are now."""

import pictures
import pytest

from unit.pages import chromium


def test_the_picture_is_of_pages_of_todays_structure():
    """`make docs` takes it again, where Chromium is installed."""
    assert pictures.noted(pictures.PICTURE.read_bytes()) == pictures.structure(*pictures.pages())


def test_the_picture_of_a_hub_is_of_todays_form_and_versions():
    """`GPULAB_PICTURES=1 make molecule SCENARIO='-s jupyter'` takes it again."""
    assert pictures.noted(pictures.HUB.read_bytes()) == pictures.of_hub()


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("<h2>Nodes</h2><p class=a>5</p>", True),
        ("<h2>Hosts</h2><p class=a>4</p>", False),
        ("<h2>Nodes</h2><p>4</p>", False),
        ("<p class=a>4</p><h2>Nodes</h2>", False),
    ],
)
def test_headings_elements_and_their_order_are_structure_and_figures_are_not(other, same):
    assert (pictures.structure("<h2>Nodes</h2><p class=a>4</p>") == pictures.structure(other)) is same


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="Chromium is not installed")
def test_the_same_picture_is_taken_twice():
    assert pictures.take() == pictures.take()
