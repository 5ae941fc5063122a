"""Where tests find the published files."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def data_dir(monkeypatch):
    """Set NGEM_DATA_DIR to a directory with the published files, or skip."""
    place = Path(os.environ.get("NGEM_DATA_DIR") or BESIDE)
    if not place.is_dir():
        pytest.skip("the published data files are not here: set NGEM_DATA_DIR to their directory")
    monkeypatch.setenv("NGEM_DATA_DIR", str(place))
    return place
