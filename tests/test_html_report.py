"""The page about a model: complete, self-contained, readable without eyes, alive in a browser."""

import html.parser
import shutil
import subprocess

import jax
import numpy as np
import pytest

from ngem import MDNRegressor, html_report

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


@pytest.fixture(scope="module")
def page():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    x[:, 2:] = np.eye(2)[rng.integers(0, 2, 60)]
    y = np.stack([3 * x[:, 0], x[:, 1]], axis=1) + 0.1 * rng.normal(size=(60, 2))
    model = MDNRegressor(
        n_components=2,
        hidden_sizes=(8,),
        batch_size=16,
        max_epochs=60,
        learning_rate=0.03,
        random_state=0,
    )
    with jax.numpy_dtype_promotion("standard"):
        model.fit(x, y)
    columns = {"a<b": [0], "second": [1], "kind": [2, 3]}
    table = html_report.Table(x, y, columns, ["up & down", "other"])
    found = html_report.importances(model, table)
    assert set(found) == set(columns)
    assert found["a<b"] > found["kind"]
    return html_report.make_report(model, table, title="Ours & theirs", repeat="ngem report m t")


def test_nothing_comes_from_elsewhere_and_all_is_told(page):
    read = Reader(page)
    pictures = read.all("img")
    # Training, importance, components; for two targets five densities, intervals and calibration.
    assert len(pictures) == 3 + 2 * (5 + 1 + 2)
    for attrs in [*pictures, *read.all("source")]:
        assert (attrs.get("src") or attrs["srcset"]).startswith("data:image/png;base64,")
    assert all(len(attrs["alt"]) > 10 for attrs in pictures)
    assert not read.all("link")
    assert all("src" not in attrs for attrs in read.all("script"))
    assert "http" not in page.replace("data:image", "")
    assert "{{" not in page
    assert "Ours &amp; theirs" in page
    assert "a&lt;b" in page
    assert "a<b" not in page


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_runs_it(page, tmp_path):
    moved = page.replace(
        "</body>",
        """<script>
const slider = document.querySelector(".slider");
slider.querySelector("input").value = 4;
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
    assert "[false,false,false,false,true]" in done.stdout
    assert "CONSOLE" not in done.stderr
