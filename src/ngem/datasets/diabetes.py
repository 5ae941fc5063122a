"""Patients with diabetes, a table that scikit-learn brings along."""

from typing import Any

import numpy as np
from jaxtyping import Float


def diabetes() -> tuple[list[str], Float[np.ndarray, "442 11"]]:
    """Return names and values of the columns of 442 patients, in their own units.

    Ten measurements of each patient; the last column is how far the disease has progressed a year
    later. Efron, Hastie, Johnstone and Tibshirani, Least Angle Regression (2004).
    """
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    names = ["age", "sex", "bmi", "blood_pressure", *data.feature_names[4:], "progression"]
    return names, np.column_stack([data.data, data.target])
