"""Figures are drawn from the committed runs."""

import numpy as np
import pytest
from matplotlib.image import imread

from ngem.repro import spec
from ngem.repro.figures import FIGURES
from ngem.repro.reproduce import COMMITTED
from ngem.repro.store import Results


@pytest.mark.parametrize("name", ["fig1", "fig4", "fig10"])
def test_a_figure_has_the_size_of_the_committed_one_and_is_not_blank(name, tmp_path, request):
    root = request.config.rootpath / COMMITTED
    loaded = spec.load(name)
    results = Results(root / loaded.runs / "results.json", settings=loaded.settings, budget="full")
    FIGURES[name](loaded, results, tmp_path / "figure.png")
    drawn, committed = imread(tmp_path / "figure.png"), imread(root / name / f"{name}.png")
    assert drawn.shape == committed.shape
    # Fonts may move by a pixel; most of the picture must not.
    assert np.mean(np.abs(drawn - committed)) < 0.02
    assert drawn.std() > 0.02
