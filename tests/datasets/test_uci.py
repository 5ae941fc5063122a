"""UCI sets: shapes, statistics and splits are those of the published files."""

import numpy as np
import pytest

from ngem.datasets import load_uci, uci_splits
from ngem.datasets.uci import SOURCES

# Rows, features and, for each target, mean, standard deviation, least and greatest value, as taken
# from the sources when the files were collected. Not computed by this package.
PUBLISHED = {
    "kin8nm": (8192, 8, [(0.714283, 0.263591, 0.0401654, 1.45852)]),
    "energy": (768, 8, [(22.3072, 10.0836, 6.01, 43.1), (24.5878, 9.5071, 10.9, 48.03)]),
    "energy-heating": (768, 8, [(22.3072, 10.0836, 6.01, 43.1)]),
    "housing": (506, 13, [(22.5328, 9.18801, 5, 50)]),
    "concrete": (1030, 8, [(35.818, 16.6976, 2.33, 82.6)]),
    "power-plant": (9568, 4, [(454.365, 17.0661, 420.26, 495.76)]),
    "wine-quality-red": (1599, 11, [(5.63602, 0.807317, 3, 8)]),
    "yacht": (308, 6, [(10.4954, 15.1359, 0.01, 62.42)]),
    "naval": (11934, 16, [(0.975, 0.0147196, 0.95, 1)]),
    "protein": (45730, 9, [(7.74853, 6.11824, 0, 20.999)]),
}
SIZES = {
    "kin8nm": (7373, 819),
    "energy": (691, 77),
    "energy-heating": (691, 77),
    "housing": (455, 51),
    "concrete": (927, 103),
    "power-plant": (8611, 957),
    "wine-quality-red": (1439, 160),
    "yacht": (277, 31),
    "naval": (10741, 1193),
    "protein": (41157, 4573),
}


def statistics(y):
    return np.stack([y.mean(0), y.std(0), y.min(0), y.max(0)], axis=1)


def test_every_set_is_published():
    assert set(PUBLISHED) == set(SIZES) == set(SOURCES)


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_are_the_published_ones(name, data_dir):
    rows, features, expected = PUBLISHED[name]
    table = load_uci(name)
    assert table.name == name
    assert table.x.shape == (rows, features)
    assert table.x.dtype == table.y.dtype == np.float64
    assert np.isfinite(table.x).all()
    np.testing.assert_allclose(statistics(table.y), expected, rtol=6e-6)


def test_targets_by_name(data_dir):
    both = load_uci("energy")
    np.testing.assert_array_equal(both.x, load_uci("energy-heating").x)
    np.testing.assert_array_equal(both.y[:, :1], load_uci("energy-heating").y)
    cooling = load_uci("energy", targets=["cooling"])
    np.testing.assert_array_equal(cooling.y, both.y[:, 1:])
    turbine = load_uci("naval", targets=["turbine"])
    np.testing.assert_allclose(statistics(turbine.y), [(0.9875, 0.0075, 0.975, 1)], rtol=6e-6)
    with pytest.raises(ValueError, match="targets of yacht must be among resistance, got 'speed'"):
        load_uci("yacht", targets=["speed"])


@pytest.mark.parametrize("name", SIZES)
def test_published_splits_partition_the_rows(name, data_dir):
    splits = uci_splits(name)
    assert len(splits) == (5 if name == "protein" else 20)
    for split in splits:
        assert (len(split.train), len(split.test)) == SIZES[name]
        everything = np.sort(np.concatenate(split))
        np.testing.assert_array_equal(everything, np.arange(PUBLISHED[name][0]))
    assert len({split.test.tobytes() for split in splits}) == len(splits)


def test_unknown_names_are_refused():
    for load in (load_uci, uci_splits):
        with pytest.raises(ValueError, match=r"name must be one of kin8nm, .*, got 'boston'"):
            load("boston")
