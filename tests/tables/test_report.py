"""The page about a model: complete, self-contained, escaped, described in words, interactive."""

import base64
import copy
import hashlib
import html
import html.parser
import json
import re
import shutil
import subprocess

import jax
import numpy as np
import polars as pl
import pytest

from ngem import MDNRegressor, plotting
from ngem.estimator.encoding import Encoded
from ngem.estimator.schema import Column, Schema
from ngem.tables.encode import Rows
from ngem.tables.report import densities, make_report, pictures
from ngem.tables.report import page as page_module
from ngem.tables.report.page import importances

pytestmark = pytest.mark.trains


class Reader(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


SCHEMA = Schema(
    (
        Column("US$ a<b AU$", "number"),
        Column("second", "number"),
        Column("kind", "category", ("x", "y")),
        Column("rare", "number"),
        Column("wet", "boolean"),
    ),
    ("up & {{ title }}", "far"),
    "impute",
    "ngem fit 'a & file.csv' --target far",
)


@pytest.fixture(scope="module")
def standard_promotion():
    """Let threads promote dtypes while a model is set up, before the mark takes effect."""
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(scope="module")
def fitted(standard_promotion):
    """A model and the rows to judge it by: the first two columns matter most, then the kind."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5))
    x[:, 2] = rng.integers(0, 2, 60)
    x[:, 3] = np.arange(60) == 7  # the same in nearly all rows
    x[:, 4] = rng.integers(0, 2, 60)
    up = 3 * x[:, 0] + 0.5 * (x[:, 2] == 0)
    y = np.stack([up, x[:, 1] + 3e7], axis=1) + 0.1 * rng.normal(size=(60, 2))
    x[5, 0] = np.nan
    model = MDNRegressor(
        n_components=2,
        n_members=2,
        hidden_sizes=(8,),
        batch_size=16,
        max_epochs=60,
        learning_rate=0.03,
        dropout=0.0,
        missing="impute",
        random_state=0,
    )
    model.fit(Encoded(x, SCHEMA), y)
    return model, Rows(x, y, np.arange(60) + 1, np.ones(60, bool), pl.DataFrame())


@pytest.fixture(scope="module")
def page(fitted):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(densities, "_LEVELS", (0.2, 0.8))  # fewer pictures to draw
        patch.setattr(plotting, "ConstrainedLayoutEngine", lambda **_: None)  # slow to compute
        return make_report(*fitted, SCHEMA, title="Ours & theirs")


@pytest.mark.slow
def test_important_columns_come_first(fitted):
    rises = importances(*fitted, SCHEMA)
    assert set(rises) == {column.name for column in SCHEMA.features}
    assert set(list(rises)[:2]) == {"US$ a<b AU$", "second"}
    assert list(rises.values()) == sorted(rises.values(), reverse=True)


@pytest.mark.slow
def test_a_typical_row_is_one_that_could_be(fitted):
    _, rows = fitted
    row = densities.typical_row(rows, SCHEMA)
    assert row[0] == np.nanmedian(rows.x[:, 0])
    assert row[2] in (0, 1)
    assert row[4] in (0, 1)


def test_without_a_number_that_varies_no_density_is_drawn(fitted):
    model, rows = fitted
    constant = rows._replace(x=np.zeros_like(rows.x))
    order = dict.fromkeys(SCHEMA.places, 0.0)
    assert densities.density_sliders(model, constant, SCHEMA, order, 0) == []


def test_weights_are_those_of_ranks_and_kinds(fitted):
    model, rows = fitted
    network = model.model_.network
    weights = np.asarray(model.model_.mixture(rows.x).weights)
    assert weights.shape == (60, 2 * 2 + 3)  # two networks of two components, and the guard
    alt = pictures.component_weights(network, weights, "network").alt
    each = weights[:, :4].reshape(60, 2, 2)
    heaviest, other = each.max(axis=-1).sum(axis=1).mean(), each.min(axis=-1).sum(axis=1).mean()
    assert f"component 1: {heaviest:.2g}, component 2: {other:.2g}, linear model: " in alt
    assert f"wide, 4 std: {weights[:, 6].mean():.2g}." in alt


@pytest.mark.slow
def test_one_network_does_not_show_its_own_uncertainty(fitted):
    model, rows = fitted
    one = copy.copy(model)
    one.model_ = model.model_.member(0)
    assert page_module._uncertainty(one, rows.x, "far", 1, rows.y[:, 1]) is None
    both = page_module._uncertainty(model, rows.x, "far", 1, rows.y[:, 1])
    named = pl.DataFrame(rows.x, schema=SCHEMA.names)
    named = named.with_columns(
        kind=pl.when(pl.col("kind") == 0).then(pl.lit("x")).otherwise(pl.lit("y"))
    )
    noise, of_model = np.sqrt(model.predict_uncertainty(named, 1)[:2])[..., 1]
    assert f"would not remove, {noise.mean():.3g} on average" in both.alt
    assert f"would remove, {of_model.mean():.3g} on average" in both.alt


def test_a_single_number_has_one_picture_and_no_slider(fitted):
    model, rows = fitted
    x = np.zeros_like(rows.x)
    x[:, 1] = rows.x[:, 1]
    order = dict.fromkeys(SCHEMA.places, 0.0)
    (only,) = densities.density_sliders(model, rows._replace(x=x), SCHEMA, order, 0)
    assert only.column == ""
    assert len(only.pictures) == 1
    assert "along second, all others" in only.pictures[0].title


def test_the_page_is_complete_and_self_contained(page):
    read = Reader(page)
    pictures = read.all("img")
    # Training, importance, components; for two targets two sliders, intervals, uncertainty and
    # calibration.
    frames = [len(json.loads(attrs["data-labels"])) for attrs in read.all("div") if len(attrs) == 2]
    assert frames == [2] * 4
    assert len(pictures) == 3 + sum(frames) + 2 * (2 + 2)
    sources = read.all("source")
    for attrs in [*pictures, *sources]:
        assert (attrs.get("src") or attrs["srcset"]).startswith("data:image/png;base64,")
    for light, dark in zip(pictures, sources, strict=True):
        assert light["src"] != dark["srcset"]
        assert dark["media"] == "screen and (prefers-color-scheme: dark)"
    assert all(len(attrs["alt"]) > 10 for attrs in pictures)
    descriptions = " ".join(attrs["alt"] for attrs in pictures)
    assert "brighter means" in descriptions
    assert "below the diagonal the model is overconfident" in descriptions
    assert "2 networks, kept epoch" in descriptions
    assert "which more data would remove" in descriptions
    assert not read.all("link")
    assert all("src" not in attrs for attrs in read.all("script"))
    assert [attrs["scope"] for attrs in read.all("th")].count("col") == 2 + 5 + 6 + 5 + 2
    words = without_images(page)
    assert "http" not in words.replace("http-equiv", "")
    assert words.count("<main>") == 1
    assert "kind = x" in words
    assert "nan" not in words.lower()
    assert "outside the range of the training rows</th><td>0<" in words


def test_it_answers_first(fitted, page):
    model, rows = fitted
    words = html.unescape(without_images(page))
    first = words[words.index("In short") : words.index("<h2>Scores")]
    low, high = np.moveaxis(model.model_.quantiles(rows.x, np.array([0.05, 0.95])), 1, 0)
    inside = np.mean((rows.y >= low) & (rows.y <= high), axis=0)
    errors = np.sqrt(np.mean((model.model_.mean(rows.x) - rows.y) ** 2, axis=0))
    for name, fraction, error in zip(SCHEMA.targets, inside, errors, strict=True):
        assert f"{fraction:.0%} of {name} lie in the 90% intervals" in first
        assert f"off by {error:.3g} (root mean square)" in first
    worst = int(np.argmin(model.model_.log_prob(rows.x, rows.y)))
    assert f"The worst: row {worst + 1} has {rows.y[worst, 0]:.4g}, " in first
    assert "Judge it by other rows" not in first


def test_surprising_rows_are_shown_with_their_features(fitted):
    model, rows = fitted
    scores = page_module.score_rows(model.model_, rows.x, rows.y)
    scores = scores._replace(nll=np.where(np.arange(60) == 5, 1e9, scores.nll))
    importance = {"kind": 3.0, "US$ a<b AU$": 2.0, "wet": 1.0}
    header, first, *others = page_module._least_likely(rows, SCHEMA, scores, importance)
    assert header[-3:] == ("kind", "US$ a<b AU$", "wet")
    kind, wet = "xy"[int(rows.x[5, 2])], str(rows.x[5, 4] == 1).lower()
    assert (first[0], *first[-3:]) == ("6", kind, "missing", wet)
    assert len(others) == 7


def test_every_text_is_escaped(page):
    words = without_images(page)
    assert page.startswith("<!doctype html>")
    assert words.count("Ours &amp; theirs") == 2
    assert "up &amp; {{ title }}" in words
    assert "a&lt;b" in words
    assert "a<b" not in words
    assert "a &amp; file.csv" in words


def test_the_policy_allows_what_the_page_holds_and_nothing_else(page):
    (policy,) = [tag["content"] for tag in Reader(page).all("meta") if "http-equiv" in tag]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    for name in ("style", "script"):
        (inline,) = re.findall(f"<{name}[^>]*>(.*?)</{name}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert not re.search(r"\s(style|on\w+)=", without_images(page))  # a policy blocks those


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ngem fit 'a b.csv' --target y", [("DATA", "a b.csv"), ("--target", "y")]),
        ("", []),
        ("ngem fit 'open", []),
        ("rm -rf / --no-preserve-root x", []),
        ("ngem fit a.csv --target", []),
        ("ngem fit a.csv ; curl", []),
    ],
)
def test_a_stored_command_is_a_list_of_options(command, options):
    assert page_module._options(command) == options


def without_images(page):
    return re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", page)


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
    assert densities._range(values) == (expected and pytest.approx(expected))


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
    # The policy refuses a script that is not the page's own: allow this one.
    added = re.findall("<script>(.*?)</script>", moved, re.S)[-1]
    digest = base64.b64encode(hashlib.sha256(added.encode()).digest()).decode()
    moved = moved.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    path = tmp_path / "page.html"
    path.write_text(moved, encoding="utf-8")
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", f"--user-data-dir={tmp_path / 'profile'}"),
    ]
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
