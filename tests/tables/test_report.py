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
from importlib import resources

import jax
import numpy as np
import polars as pl
import pytest

from ngem import MDNRegressor, MixtureBoostingRegressor
from ngem.estimator.encoding import Encoded
from ngem.estimator.schema import Column, Schema
from ngem.families import get_family
from ngem.tables.encode import Rows
from ngem.tables.report import explorer, figures, importance, make_report, words
from ngem.tables.report import page as page_module

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
    return make_report(*fitted, SCHEMA, title="Ours & theirs")


@pytest.fixture(scope="module")
def data(page):
    """What the scripts of the page read."""
    return json.loads(re.search('id="data">(.*?)</script>', page, re.S)[1])


@pytest.mark.slow
def test_what_a_shuffled_column_costs_is_in_the_units_of_each_target(fitted):
    model, rows = fitted
    cost = importance.importance_of(model.model_, rows.x, rows.y, SCHEMA)
    assert set(cost.rises) == {column.name for column in SCHEMA.features}
    assert set(list(cost.rises)[:2]) == {"US$ a<b AU$", "second"}
    assert list(cost.rises.values()) == sorted(cost.rises.values(), reverse=True)
    off = np.abs(np.asarray(model.model_.mean(rows.x)) - rows.y).mean(axis=0)
    np.testing.assert_allclose(cost.error, off)
    # The first target hangs on the first column, the second on the second.
    up, far = (importance.importance_bars(cost, name, at) for at, name in enumerate("uf"))
    assert [up.lines[0].name, far.lines[0].name] == ["US$ a<b AU$", "second"]
    assert up.lines[0].length == far.lines[0].length == 1
    assert up.lines[0].texts[0] == f"{cost.errors['US$ a<b AU$'][0] - off[0]:+.3g}"
    assert min(line.length for line in (*up.lines, *far.lines)) >= 0


def test_cells_hold_the_probabilities_of_the_mixture(fitted):
    model, rows = fitted
    limits = np.array([[-4.0, 4.0], [3e7 - 2, 3e7 + 2]])
    edges = [np.linspace(*ends, explorer.CELLS + 1) for ends in limits]
    masses, atoms = explorer.probabilities(model.model_, rows.x[:3], edges, [(), ()])
    assert [part.shape for part in (*masses, *atoms)] == [(3, explorer.CELLS + 2)] * 2 + [
        (3, 0)
    ] * 2
    for part in masses:
        np.testing.assert_allclose(part.sum(axis=1), 1, atol=1e-6)
    with jax.enable_x64(True):
        mixture = model.model_.mixture(rows.x[:3])
        for target, (low, high) in enumerate(limits):
            below = mixture.marginal(target).cdf(np.full((3, 1), (low + high) / 2))
            half = masses[target][:, : 1 + explorer.CELLS // 2].sum(axis=1)
            np.testing.assert_allclose(half, np.asarray(below), atol=1e-5)


def test_cells_of_counts_atoms_and_bounds():
    counts = explorer.cell_edges(get_family("poisson"), np.array([0.0, 1.0, 7.0] * 20))
    assert counts[0] == -0.5
    assert set(np.diff(counts)) == {1.0}
    wide = explorer.cell_edges(get_family("poisson"), np.arange(500.0))
    assert len(wide) <= explorer.CELLS + 2
    assert set(np.diff(wide)) == {7.0}
    share = explorer.cell_edges(get_family("beta"), np.linspace(0.01, 0.99, 99))
    assert (share[0], share[-1]) == (0.0, 1.0)
    amounts = np.r_[np.zeros(50), np.linspace(1, 9, 50)]
    with_zero = explorer.cell_edges(get_family("gamma + 0"), amounts)
    assert with_zero[0] < 0 < with_zero[1] + np.ptp(with_zero)
    assert 0 not in with_zero


@pytest.mark.trains
def test_the_explorer_of_a_mixed_table_shows_counts_and_atoms():
    """Probabilities of whole numbers and of an atom are those of the mixture."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (120, 1))
    visits = rng.poisson(2.0, 120)
    loss = np.where(rng.random(120) < 0.4, 0.0, rng.gamma(2.0, 1.0, 120))
    model = MixtureBoostingRegressor(
        2, family=["poisson", "gamma + 0"], n_members=1, max_rounds=3, random_state=0
    ).fit(x, np.c_[visits, loss])
    families = [model.model_.family_of(target) for target in range(2)]
    edges = [
        explorer.cell_edges(family, values)
        for family, values in zip(families, (visits, loss), strict=True)
    ]
    masses, atoms = explorer.probabilities(
        model.model_, x[:4], edges, [family.atoms for family in families]
    )
    mixture = model.predict_distribution(x[:4])
    whole = np.exp(mixture.marginal(0).log_prob(np.full((4, 1), 2.0, np.float32)))
    np.testing.assert_allclose(masses[0][:, 1 + int(np.argmax(edges[0] > 2)) - 1], whole, rtol=1e-4)
    zero = np.exp(mixture.marginal(1).log_prob(np.zeros((4, 1), np.float32)))
    np.testing.assert_allclose(atoms[1][:, 0], zero, rtol=1e-4)
    assert np.all(masses[1][:, np.argmax(edges[1] > 0)] >= atoms[1][:, 0] - 1e-6)


def test_the_explorer_has_a_slider_for_every_column_that_varies(fitted, data):
    _, rows = fitted
    given = data["explorer"]
    columns = {column["name"]: column for column in given["columns"]}
    assert set(columns) == {column.name for column in SCHEMA.features}
    assert sum(column["set"] for column in given["columns"]) == 2
    assert given["rows"] == rows.numbers.tolist()
    kind = columns["kind"]
    labels = [None if value is None else kind["labels"][value] for value in kind["values"]]
    assert labels == ["xy"[int(code)] for code in rows.x[:, 2]]
    assert columns["US$ a<b AU$"]["values"][5] is None
    known = np.array(columns["second"]["values"])
    np.testing.assert_allclose(known, rows.x[:, 1], atol=1e-4)
    for target, values in enumerate(given["targets"]):
        whole = np.frombuffer(base64.b64decode(values["masses"]), "<u2").reshape(60, -1)
        np.testing.assert_allclose(whole.sum(axis=1) / 65535, 1, atol=1e-3)
        np.testing.assert_allclose(values["y"], rows.y[:, target], rtol=0, atol=1e-3)


def test_constant_columns_have_no_slider(fitted):
    model, rows = fitted
    constant = rows._replace(x=np.zeros_like(rows.x))
    given = explorer.explorer(model.model_, constant, SCHEMA, dict.fromkeys(SCHEMA.places, 0.0))
    assert given["columns"] == []


def test_weights_are_those_of_ranks_and_kinds(fitted):
    model, rows = fitted
    network = model.model_.network
    weights = np.asarray(model.model_.mixture(rows.x).weights)
    assert weights.shape == (60, 2 * 2 + 3)  # two networks of two components, and the guard
    lines = figures.component_weights(network, weights, "network").lines
    each = weights[:, :4].reshape(60, 2, 2)
    heaviest, other = each.max(axis=-1).sum(axis=1).mean(), each.min(axis=-1).sum(axis=1).mean()
    named = {line.name: line.texts[0] for line in lines}
    assert named["component 1 of a network"] == f"{heaviest:.2g}"
    assert named["component 2 of a network"] == f"{other:.2g}"
    assert named["wide, 4 standard deviations"] == f"{weights[:, 6].mean():.2g}"
    assert "linear model" in named


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


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, np.nan], [1.0, 2.0, None]),
        ([3e7 + 0.25, 3e7 + 0.5, np.inf], [3e7 + 0.25, 3e7 + 0.5, None]),
        ([123456.0, 1.0], [123456.0, 1.0]),
        ([1.23456789, 0.0], [1.2346, 0.0]),
        ([7.0, 7.0], [7.0, 7.0]),
        ([], []),
    ],
)
def test_numbers_of_figures_keep_the_digits_of_their_variation(values, expected):
    assert figures.plain(values) == expected


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(9748.4, 3, "9,748"), (625000.0, 4, "625,000"), (12.345, 3, "12.3"), (-0.5, 3, "-0.5")],
)
def test_numbers_in_texts_have_no_exponents_where_they_can_be_read(value, digits, text):
    assert figures.number(value, digits) == text


def test_the_page_is_complete_and_self_contained(page, data):
    read = Reader(page)
    charts = [attrs for attrs in read.all("div") if "data-chart" in attrs]
    # Training; for two targets intervals, uncertainty and two of calibration.
    assert [int(attrs["data-chart"]) for attrs in charts] == list(range(1 + 2 * 4))
    assert len(data["charts"]) == len(charts)
    for chart in data["charts"]:
        assert {len(one["values"]) for one in chart["series"]} == {len(chart["x"])}
    descriptions = " ".join(attrs["aria-label"] for attrs in charts)
    assert "below the diagonal the model is overconfident" in descriptions
    assert "2 networks, kept epoch" in descriptions
    assert "which more data would remove" in descriptions
    assert not read.all("link")
    assert not read.all("img")
    assert all("src" not in attrs for attrs in read.all("script"))
    words = without_scripts(page)
    assert "http" not in words.replace("http-equiv", "")
    assert words.count("<main>") == 1
    assert "nan" not in words.lower()
    assert "outside the range of the training rows</th><td>0<" in words
    assert len(page) < 300_000  # of which uPlot has 51,000


def test_the_charting_library_is_the_one_that_its_page_names(page):
    vendor = resources.files("ngem.tables.report") / "vendor"
    text = vendor.joinpath("README.md").read_text()
    named = dict(re.findall(r"`([\w.]+)` \| `([0-9a-f]{64})`", text))
    assert set(named) == {"uplot.js", "uplot.css"}
    for name, digest in named.items():
        assert hashlib.sha256(vendor.joinpath(name).read_bytes()).hexdigest() == digest
    version = re.search("uPlot ([0-9.]+)", text)[1]
    assert f"(v{version})" in page
    assert f"uPlot {version}, MIT license" in page
    assert "Permission is hereby granted, free of charge" in page


def test_it_answers_first(fitted, page):
    model, rows = fitted
    text = html.unescape(without_scripts(page))
    first = text[text.index("In short") : text.index("<h2>Explore")]
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
    important = ["kind", "US$ a<b AU$", "wet"]
    header, first, *others = words.least_likely(rows, SCHEMA, scores, important)
    assert header[-3:] == ("kind", "US$ a<b AU$", "wet")
    kind, wet = "xy"[int(rows.x[5, 2])], str(rows.x[5, 4] == 1).lower()
    assert (first[0], *first[-3:]) == ("6", kind, "missing", wet)
    assert len(others) == 7


def test_every_text_is_escaped(page):
    words = without_scripts(page)
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
        inline = re.findall(f"<{name}>(.*?)</{name}>", page, re.S)
        assert len(inline) == 2  # those of the charting library, and ours
        assert rules[f"{name}-src"] == " ".join(f"'sha256-{digest(one)}'" for one in inline)
    assert set(rules) == {"default-src", "style-src", "script-src", "base-uri", "form-action"}
    assert not re.search(r"\s(style|on\w+)=", without_scripts(page))  # a policy blocks those


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
    assert words.options(command) == options


def without_scripts(page):
    return re.sub("<(script|style)[^>]*>.*?</(script|style)>", "", page, flags=re.S)


#: Moves a slider, frees all columns, and points at the first chart; the title says what happened.
MOVE = """
{
const all = (query) => [...document.querySelectorAll(query)];
const said = () => document.querySelector(".said").textContent;
const before = said();
const slider = document.querySelector("input[aria-label=second]");
slider.value = 99;
slider.dispatchEvent(new Event("input"));
const moved = said();
all("button").find((one) => one.textContent.startsWith("free")).click();
const free = said();
const over = document.querySelector(".u-over");
const { left, top, width, height } = over.getBoundingClientRect();
const middle = { clientX: left + width / 2, clientY: top + height / 2 };
over.dispatchEvent(new MouseEvent("mousemove", { ...middle, bubbles: true }));
requestAnimationFrame(() => setTimeout(() => {
  const hover = document.querySelector(".hover").textContent;
  const wide = document.documentElement.scrollWidth - innerWidth;
  document.title = JSON.stringify([before, moved, free, hover, all("canvas").length, wide]);
}, 50));
}
"""


def chromium(page, tmp_path, *options):
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", *options),
    ]
    return subprocess.run(
        ["chromium", *options, path.as_uri()], capture_output=True, text=True, timeout=120
    )


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.parametrize(
    "width", [400, pytest.param(1600, marks=pytest.mark.slow)], ids=["phone", "wide"]
)
def test_a_browser_runs_it(page, tmp_path, width):
    scripted = page.replace("</body>", f"<script>{MOVE}</script></body>")
    # The policy refuses a script that is not the page's own: allow this one.
    scripted = scripted.replace("script-src ", f"script-src 'sha256-{digest(MOVE)}' ", 1)
    options = (f"--window-size={width},900", "--virtual-time-budget=5000", "--dump-dom")
    done = chromium(scripted, tmp_path, *options)
    title = re.search("<title>(.*?)</title>", done.stdout)
    assert title is not None
    before, moved, free, hover, canvases, wider = json.loads(html.unescape(title[1]))
    near = [int(re.match(r"(\d+|No)", text)[1].replace("No", "0")) for text in (before, moved)]
    assert max(near) < 60
    assert "near all of" in before
    assert "second near " in moved
    assert moved != before
    assert free.startswith("60 of 60 rows")
    assert re.match(r"row \d+: .* = ", hover)
    assert canvases == 1 + 2 * 4 + 2
    assert wider <= 0  # no part of the page is beyond the edge
    assert "CONSOLE" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_prints_it(page, tmp_path):
    sizes = []
    for one in (page, without_scripts(page)):
        done = chromium(one, tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}")
        assert "CONSOLE" not in done.stderr
        sizes.append((tmp_path / "page.pdf").stat().st_size)
    assert sizes[0] > 1.5 * sizes[1]  # charts are on paper too
