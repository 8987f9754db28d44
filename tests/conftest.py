"""Shared settings of the test suite."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, print_blob=True)
settings.load_profile("default")

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data():
    """The folder of published problems beside the project's root, where it is there."""
    if not DATA.is_dir():
        pytest.skip(f"needs the published problems in {DATA.relative_to(DATA.parents[1])}")
    return DATA
