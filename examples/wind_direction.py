"""Wind directions at three airports: a target on a circle, where 350 and 10 degrees are close.

python examples/wind_direction.py --out out/examples

The table (weather of the R package nycflights13) is read from the directory `more` of
NGEM_DATA_DIR.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from ngem import MixtureBoostingRegressor
from ngem.datasets import DataError, random_split, table_path
from ngem.plotting import caption, styled_figure

FAMILIES = ("von-mises(360)", "gaussian")


def draw(model: MixtureBoostingRegressor, x: pl.DataFrame, y: np.ndarray, path: Path) -> None:
    """Draw the predicted density of some hours around the compass, and the direction seen."""
    wide = np.argsort(model.predict(x, return_std=True)[1])
    rows = wide[(np.array([0.1, 0.5, 0.9]) * len(wide)).astype(int)]
    degrees = np.linspace(0, 360, 181)
    settings = {"subplot_kw": {"projection": "polar"}}
    with styled_figure(1, 3, (8, 3.2), top=0.9, **settings) as (figure, (axes,)):
        for ax, row in zip(axes, rows, strict=True):
            hour = x[[int(row)] * len(degrees)]
            ax.plot(np.radians(degrees), np.exp(model.log_prob(hour, degrees)), color="#cc3311")
            ax.plot(np.radians([y[row]] * 2), ax.get_ylim(), color="black", lw=1)
            ax.set(theta_zero_location="N", theta_direction=-1, yticks=[])
            ax.set_xticks(np.radians([0, 90, 180, 270]), ["N", "E", "S", "W"])
            caption(ax, f"{x['origin'][int(row)]}, month {x['month'][int(row)]}", 1.12)
        figure.savefig(path, dpi=120)


def main() -> None:
    """Fit directions and numbers to the same rows, and compare on test rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=200, help="rounds of trees")
    parser.add_argument("--rows", type=int, default=6000, help="fewer for a quick run")
    parser.add_argument("--out", type=Path, default=Path("out/examples"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    try:
        table = pl.read_csv(table_path("weather.csv"), null_values="NA", infer_schema_length=None)
    except DataError as error:
        raise SystemExit(str(error)) from None
    table = table.drop_nulls("wind_dir").sample(arguments.rows, seed=arguments.seed)
    y = table["wind_dir"].cast(float).to_numpy()
    x = table.drop("rownames", "year", "wind_dir", "wind_gust", "time_hour")
    split = random_split(len(x), arguments.seed, test=0.2)
    new, truth = x[split.test], y[split.test]

    arguments.out.mkdir(parents=True, exist_ok=True)
    for family in FAMILIES:
        model = MixtureBoostingRegressor(
            3,
            family=family,
            max_rounds=arguments.epochs,
            n_members=2,
            random_state=arguments.seed,
        )
        model.fit(x[split.train], y[split.train])
        away = np.abs((model.predict(new) - truth + 180) % 360 - 180)
        print(f"{family}: mean log density {model.log_prob(new, truth).mean():.3f}")
        print(f"{family}: median distance of the mean direction {np.median(away):.0f} degrees")
        if family == FAMILIES[0]:
            draw(model, new, truth, arguments.out / "wind_direction.png")
        else:
            outside = model.cdf(new, 0.0) + 1 - model.cdf(new, 360.0)
            print(f"{family}: probability of directions that do not exist {outside.mean():.1%}")


if __name__ == "__main__":
    main()
