"""Boosted mixtures: trees whose leaves take natural gradient steps, grown by LightGBM."""

from .curvature import CURVATURES, Curvature, Newton, Outputs, newton, row_newton, row_nll
from .engine import Boosted, Forest, Plan, Rows, TreeSettings, boost, import_lightgbm
from .evaluate import Evaluator, suits
from .predictor import own_guard, tree_predictor
from .start import marginal_start, to_intervals
from .team import Team
from .trees import DTYPES, Trees, parse_trees

__all__ = [
    "CURVATURES",
    "DTYPES",
    "Boosted",
    "Curvature",
    "Evaluator",
    "Forest",
    "Newton",
    "Outputs",
    "Plan",
    "Rows",
    "Team",
    "TreeSettings",
    "Trees",
    "boost",
    "import_lightgbm",
    "marginal_start",
    "newton",
    "own_guard",
    "parse_trees",
    "row_newton",
    "row_nll",
    "suits",
    "to_intervals",
    "tree_predictor",
]
