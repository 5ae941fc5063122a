"""Plots: what is drawn where, read from the artists and from the pixels."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from scipy import stats

import ngem
from ngem import plotting

X = np.linspace(-1, 1, 41)
# One narrow branch that rises and a wide one far above, with a quarter of the weight.
MEAN = np.stack([X, np.full_like(X, 8.0)], axis=1)[..., None]
SCALE = np.broadcast_to(np.array([0.3, 1.0])[:, None], MEAN.shape)
MIXTURE = ngem.gaussian_mixture(np.log(np.tile([0.75, 0.25], (41, 1))), MEAN, SCALE)


class Canvas:
    """Axes that fill the figure, and the color at a point in them."""

    def __enter__(self):
        self._context = plotting.styled_figure(1, 1, (4, 4))
        self.figure, axes = self._context.__enter__()
        self.ax = axes[0, 0]
        return self

    def __exit__(self, *error):
        self._context.__exit__(*error)

    def render(self):
        canvas = FigureCanvasAgg(self.figure)
        canvas.draw()
        self.pixels = np.asarray(canvas.buffer_rgba())[::-1, :, :3] / 255

    def color(self, x, y):
        column, row = self.ax.transData.transform((x, y))
        return self.pixels[int(row), int(column)]


def test_a_density_map_is_bright_where_the_density_is_high():
    with Canvas() as canvas:
        (mesh,) = plotting.density_map(canvas.ax, X, MIXTURE)
        canvas.render()
        brightness = {y: canvas.color(0.5, y).sum() for y in (0.5, 1.0, 4.0, 8.0)}
    grid = np.linspace(*canvas.ax.get_ylim(), mesh.get_array().shape[0])
    expected = 0.75 * stats.norm.pdf(grid, X[7], 0.3) + 0.25 * stats.norm.pdf(grid, 8, 1)
    np.testing.assert_allclose(mesh.get_array()[:, 7], expected, rtol=1e-9, atol=1e-12)
    assert brightness[0.5] > brightness[1.0] > brightness[8.0] > brightness[4.0]
    assert brightness[4.0] < 0.1
    low, high = canvas.ax.get_ylim()
    assert -2.2 < low < -1.5
    assert 10 < high < 12


def test_a_density_map_keeps_to_limits():
    with Canvas() as canvas:
        plotting.density_map(canvas.ax, X, MIXTURE, limits=(-1, 2))
        assert canvas.ax.get_ylim() == (-1, 2)


def test_a_fan_chart_has_nested_bands_around_the_median():
    one = ngem.gaussian_mixture(np.zeros((41, 1)), MEAN[:, :1], SCALE[:, :1])
    with Canvas() as canvas:
        *bands, median = plotting.fan_chart(canvas.ax, X, one, coverages=(0.5, 0.9))
        canvas.ax.get_legend().remove()
        canvas.render()
        inner, outer = (canvas.color(0.1, 0.1 + 0.3 * z) for z in (0.4, 1.1))
        beyond = canvas.color(0.12, 0.12 + 0.3 * 2.2)
    np.testing.assert_allclose(median.get_ydata(), X, atol=1e-6)
    for band, coverage in zip(bands, (0.9, 0.5), strict=True):
        reach = 0.3 * stats.norm.ppf(0.5 + coverage / 2)
        ends = band.get_paths()[0].get_extents()
        assert (ends.y0, ends.y1) == pytest.approx((-1 - reach, 1 + reach), abs=1e-5)
        assert band.get_label() == f"{coverage:.0%}"
    np.testing.assert_allclose(inner, bands[1].get_facecolor()[0, :3], atol=0.01)
    np.testing.assert_allclose(outer, bands[0].get_facecolor()[0, :3], atol=0.01)
    assert inner.sum() < outer.sum() < beyond.sum()


def test_a_pit_histogram_shows_what_sticks_out_of_the_band():
    values = np.concatenate([np.full(60, 0.001), (np.arange(140) + 0.5) / 140])
    with Canvas() as canvas:
        band, bars, one = plotting.pit_histogram(canvas.ax, values, bins=10)
        canvas.ax.get_legend().remove()
        canvas.render()
        inside, empty = canvas.color(0.55, 0.3), canvas.color(0.55, 2.0)
        first = canvas.color(0.05, 3.0)
    heights = [bar.get_height() for bar in bars]
    np.testing.assert_allclose(heights, [3.7, *[0.7] * 9])
    low, high = stats.binom.ppf([0.025, 0.975], 200, 0.1) / 20
    extents = band.get_extents().transformed(canvas.ax.transData.inverted())
    assert (extents.y0, extents.y1) == pytest.approx((low, high))
    assert list(one.get_ydata()) == [1, 1]
    np.testing.assert_allclose(first, inside, atol=0.06)  # a grid line may be visible
    np.testing.assert_allclose(empty, 1.0, atol=0.02)


@pytest.mark.parametrize("kind", ["central", "below"])
def test_a_reliability_curve_sags_for_a_model_that_is_too_sure(kind):
    values = stats.norm.cdf(2 * np.random.default_rng(0).normal(size=400))
    with Canvas() as canvas:
        band, diagonal, observed = plotting.reliability_curve(canvas.ax, values, kind=kind)
        canvas.render()
        x, y = observed.get_data()
        on_curve = canvas.color(x[75], y[75])
    if kind == "central":
        expected = 2 * stats.norm.cdf(stats.norm.ppf(0.5 + x[1:-1] / 2) / 2) - 1
    else:
        expected = stats.norm.cdf(stats.norm.ppf(x[1:-1]) / 2)
    assert np.max(np.abs(y[1:-1] - expected)) < 0.08
    corners = band.get_paths()[0].vertices
    middle = corners[np.isclose(corners[:, 0], 0.5), 1]
    low, high = stats.binom.ppf([0.025, 0.975], 400, 0.5) / 400
    assert (middle.min(), middle.max()) == pytest.approx((low, high))
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    np.testing.assert_allclose(on_curve, to_rgb(observed.get_color()), atol=0.35)


def test_uncertainty_is_split_and_rows_outside_are_hollow():
    x = np.array([3.0, 1.0, 2.0, 4.0])
    noise, model = np.array([1.0, 1.1, 0.9, 1.2]), np.array([0.2, 0.1, 0.1, 2.0])
    outside = x > 3.5
    with Canvas() as canvas:
        dots, hollow, model_dots, model_hollow = plotting.uncertainty(
            canvas.ax, x, noise, model, outside=outside
        )
        texts = [text.get_text() for text in canvas.ax.get_legend().get_texts()]
        canvas.ax.get_legend().remove()
        canvas.render()
        at_noise, at_model, aside = (canvas.color(*at) for at in ((1, 1.1), (1, 0.1), (1.6, 0.63)))
    np.testing.assert_array_equal(dots.get_data(), [x[:3], noise[:3]])
    np.testing.assert_array_equal(model_dots.get_data(), [x[:3], model[:3]])
    np.testing.assert_array_equal(hollow.get_data(), [[4], [1.2]])
    np.testing.assert_array_equal(model_hollow.get_data(), [[4], [2]])
    assert hollow.get_markerfacecolor() == "none" != dots.get_markerfacecolor()
    assert texts == ["noise", "model", "outside the training range"]
    assert at_noise[2] > at_noise[0] + 0.2  # blue
    assert at_model[0] > at_model[2] + 0.2  # red
    assert aside.sum() > 2.7
    assert canvas.ax.get_ylim() == (0, 2.4)
    with Canvas() as canvas:
        plotting.uncertainty(canvas.ax, x, noise, model)
        assert len(canvas.ax.get_legend().get_texts()) == 2
        with pytest.raises(ValueError, match=r"noise must have one number per row.*got \(4, 1\)"):
            plotting.uncertainty(canvas.ax, x, noise[:, None], model)


def test_bands_follow_components_and_show_their_weight():
    with Canvas() as canvas:
        artists = plotting.component_bands(canvas.ax, X, MIXTURE)
        canvas.ax.get_legend().remove()
        canvas.render()
        near, far, between = (canvas.color(0.12, y) for y in (0.25, 8.5, 4.3))
    (heavy, heavy_mean, light, _) = artists
    np.testing.assert_allclose(heavy_mean.get_ydata(), X)
    ends = light.get_paths()[0].get_extents()
    assert (ends.y0, ends.y1) == pytest.approx((7.0, 9.0))
    assert heavy.get_alpha() > light.get_alpha()
    assert near.sum() < far.sum() < between.sum() == pytest.approx(3, abs=0.05)


def test_every_component_is_drawn():
    many = ngem.gaussian_mixture(np.zeros((41, 9)), np.zeros((41, 9, 1)), np.ones((41, 9, 1)))
    with Canvas() as canvas:
        assert len(plotting.component_bands(canvas.ax, X, many)) == 2 * 9
        assert canvas.ax.get_legend() is None
        light = ngem.gaussian_mixture(
            np.tile(np.arange(9) > 1, (41, 1)) * 20.0, np.zeros((41, 9, 1)), np.ones((41, 9, 1))
        )
        assert len(plotting.component_bands(canvas.ax, X, light)) == 2 * 7
        paths = np.random.default_rng(0).normal(size=(10, 9, 2))
        assert len(plotting.trajectories(canvas.ax, paths, np.zeros((1, 2)))) == 3 * 9 + 1


def test_trajectories_begin_hollow_and_go_where_means_went():
    paths = np.stack([np.linspace(-3, 3, 30)] * 2, axis=-1)[:, None]
    with Canvas() as canvas:
        line, _, start, star = plotting.trajectories(canvas.ax, paths, np.array([[3.0, 3.0]]))
        canvas.render()
        begun, way, aside = (canvas.color(*at) for at in ((-3, -3), (0.1, 0.1), (1.3, -1.3)))
    np.testing.assert_array_equal(line.get_data(), paths[:, 0].T)
    assert [star.get_xdata()[0], start.get_xdata()[0]] == [3, -3]
    np.testing.assert_allclose(begun, 1, atol=0.05)
    assert way[0] > way[2] + 0.2  # ours is red
    assert aside.sum() > 2.7


def test_a_density_has_its_marginals_beside_it():
    truth = ngem.gaussian_mixture(
        np.log([0.5, 0.5]), np.array([[-3.0, 0.0], [3.0, 0.0]]), np.ones((2, 2))
    )
    with Canvas() as canvas:
        image, star, _, across, _, up = plotting.density_with_marginals(canvas.ax, truth, truth)
        canvas.render()
        peak, valley = canvas.color(-2.6, 0.6), canvas.color(0.0, 5.0)
    assert peak.sum() > valley.sum() + 1
    np.testing.assert_array_equal(star.get_xdata(), [-3, 3])
    np.testing.assert_allclose(image.get_array().max(), 0.5 / (2 * np.pi), rtol=0.01)
    assert across.get_paths()[0].get_extents().y1 == pytest.approx(0.5 * stats.norm.pdf(0), 0.01)
    assert up.get_paths()[0].get_extents().x1 == pytest.approx(stats.norm.pdf(0), 0.01)


def test_images_stand_side_by_side_with_their_weights():
    images = np.stack([np.zeros(16), np.ones(16)])
    with Canvas() as canvas:
        strip, *words = plotting.images_with_weights(canvas.ax, images, np.array([0.25, 0.75]))
        canvas.render()
        assert canvas.color(2.5, 0.5).sum() == pytest.approx(0)
        assert canvas.color(8.5, 0.5).sum() == pytest.approx(3)
    assert strip.get_array().shape == (4, 4 + 2 + 4)
    assert [word.get_text() for word in words] == ["0.25", "0.75"]


def test_convergence_is_a_mean_with_a_band_over_seeds():
    curves = {"nll": np.array([[3.0, 2.0], [5.0, 2.0]]), "another": np.ones((2, 2))}
    with Canvas() as canvas:
        mean, band, other, _, line = plotting.convergence(
            canvas.ax, np.array([0, 10]), curves, optimum=0.5
        )
        canvas.ax.get_legend().remove()
        canvas.render()
        inside, outside = canvas.color(1, 4.3), canvas.color(9, 4.3)
    np.testing.assert_array_equal(mean.get_ydata(), [4, 2])
    ends = band.get_paths()[0].get_extents()
    assert (ends.y0, ends.y1) == (2, 5)
    assert mean.get_color() != other.get_color()
    assert list(line.get_ydata()) == [0.5, 0.5]
    assert inside.sum() < outside.sum()


def test_a_dark_picture_can_be_read():
    def draw(ax):
        drawn = ax.boxplot([[1.0, 2.0, 3.0]])
        colors.append(to_rgb(drawn["boxes"][0].get_color()))
        ax.set(xlabel="a $^$ b")  # no formula

    colors = []
    for dark in (False, True):
        assert plotting.png(draw, (2, 2), dark=dark)
    assert sum(colors[1]) > 2 > sum(colors[0])


@pytest.mark.parametrize(
    "draw", [plotting.density_map, plotting.fan_chart, plotting.component_bands]
)
def test_rows_must_lie_along_an_axis(draw):
    two = ngem.gaussian_mixture(jnp.zeros((41, 1)), jnp.zeros((41, 1, 2)), jnp.ones((41, 1, 2)))
    with Canvas() as canvas:
        with pytest.raises(ValueError, match=r"one target column, got 2.*marginal"):
            draw(canvas.ax, X, two)
        with pytest.raises(ValueError, match=r"shape \(41,\), got \(40,\)"):
            draw(canvas.ax, X[:40], MIXTURE)
        with pytest.raises(ValueError, match=r"ascending.*linspace"):
            draw(canvas.ax, X[::-1], MIXTURE)


def test_importances_are_bars_with_the_largest_on_top():
    values = {"weights": np.array([0.1, 0.9, 0.0]), "means": np.array([0.3, 0.5, 0.2])}
    with Canvas() as canvas:
        bars = plotting.importances(canvas.ax, values, ["a", "b", "c"], most=2)
        canvas.render()
        labels = [label.get_text() for label in canvas.ax.get_yticklabels()]
    assert labels == ["a", "b"]
    np.testing.assert_allclose([bar.get_width() for bar in bars[0]], [0.1, 0.9])
    np.testing.assert_allclose([bar.get_width() for bar in bars[1]], [0.3, 0.5])
    with Canvas() as canvas, pytest.raises(ValueError, match="leave out the last column of shap"):
        plotting.importances(canvas.ax, values, ["a", "b"])
