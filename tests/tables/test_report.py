"""The page about a model: complete, self-contained, readable without eyes, alive in a browser."""

import html
import html.parser
import json
import re
import shutil
import subprocess

import jax
import numpy as np
import pytest

from ngem import MDNRegressor
from ngem.estimator.schema import Column, Schema
from ngem.tables.report import page as html_report

pytestmark = pytest.mark.trains


class Reader(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


SCHEMA = Schema(
    (
        Column("US$ a<b AU$", "number"),
        Column("second", "number"),
        Column("kind", "category", ("x", "y")),
        Column("rare", "number"),
        Column("wet", "boolean"),
    ),
    ("up & {{body}}", "far"),
    "impute",
    "ngem fit 'a file.csv'",
)


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6))
    x[:, 2:4] = np.eye(2)[rng.integers(0, 2, 60)]
    x[:, 4] = np.arange(60) == 7  # the same in nearly all rows
    x[:, 5] = rng.integers(0, 2, 60)
    y = np.stack([3 * x[:, 0], x[:, 1] + 3e7], axis=1) + 0.1 * rng.normal(size=(60, 2))
    x[5, 0] = np.nan
    model = MDNRegressor(
        n_components=2,
        hidden_sizes=(8,),
        batch_size=16,
        max_epochs=60,
        learning_rate=0.03,
        missing="impute",
        random_state=0,
    )
    with jax.numpy_dtype_promotion("standard"):
        model.fit(x, y)
    table = html_report.Table(x, y, SCHEMA, np.arange(60) + 1)
    found = html_report.importances(model, table)
    assert set(found) == {column.name for column in SCHEMA.features}
    assert set(list(found)[:2]) == {"US$ a<b AU$", "second"}
    typical = table.typical
    assert sorted(typical[2:4]) == [0, 1]
    assert typical[5] in (0, 1)
    return html_report.make_report(model, table, title="Ours & theirs")


def test_nothing_comes_from_elsewhere_and_all_is_told(page):
    read = Reader(page)
    pictures = read.all("img")
    # Training, importance, components; for two targets two sliders, intervals and calibration.
    frames = [len(json.loads(attrs["data-labels"])) for attrs in read.all("div") if len(attrs) == 2]
    assert len(frames) == 4
    assert all(2 <= count <= 5 for count in frames)
    assert len(pictures) == 3 + sum(frames) + 2 * (1 + 2)
    sources = read.all("source")
    for attrs in [*pictures, *sources]:
        assert (attrs.get("src") or attrs["srcset"]).startswith("data:image/png;base64,")
    for light, dark in zip(pictures, sources, strict=True):
        assert light["src"] != dark["srcset"]
        assert dark["media"] == "screen and (prefers-color-scheme: dark)"
    assert all(len(attrs["alt"]) > 10 for attrs in pictures)
    told = " ".join(attrs["alt"] for attrs in pictures)
    assert "brighter means" in told
    assert "below the diagonal the model is too sure" in told
    assert not read.all("link")
    assert all("src" not in attrs for attrs in read.all("script"))
    words = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)
    assert "http" not in words
    assert words.count("<main>") == 1
    assert "Ours &amp; theirs" in words
    assert "a&lt;b" in words
    assert "a<b" not in words
    assert "ngem fit &#x27;a file.csv&#x27;" in words
    assert "kind = x" in words
    assert "nan" not in words.lower()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([1.0, np.nan, 3.0]), (1.01, 2.99)),
        (np.append(np.zeros(999), 5.0), (0.0, 5.0)),
        (np.array([2.0, 2.0, np.nan]), None),
        (np.array([np.nan]), None),
    ],
)
def test_ranges_of_columns(values, expected):
    assert html_report._range(values) == (expected and pytest.approx(expected))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_runs_it(page, tmp_path):
    moved = page.replace(
        "</body>",
        """<script>
const slider = document.querySelector(".slider");
slider.querySelector("input").value = 99;
slider.querySelector("input").dispatchEvent(new Event("input"));
const shown = [...slider.querySelectorAll(".frame")].map((frame) => !frame.hidden);
document.title = JSON.stringify([shown, slider.querySelector("output").textContent]);
</script></body>""",
    )
    path = tmp_path / "page.html"
    path.write_text(moved, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    done = subprocess.run(
        ["chromium", *options, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    shown, label = json.loads(html.unescape(title[1]))
    assert shown == [*[False] * (len(shown) - 1), True]
    assert " = " in label
    assert "CONSOLE" not in done.stderr
