"""What scikit-learn expects of an estimator, without importing scikit-learn.

scikit-learn takes a second to import, as long as JAX and all of ours together, and asks for no base
class: an estimator is what has these methods. So it is imported only where it does some work: for
tags and scores, and to check what is no plain array of numbers.
"""

import copy
import inspect
from functools import cache
from typing import Any

import numpy as np

#: Types of features that are kept; all others become the first.
FLOATS = (np.float64, np.float32)

#: Methods whose further arguments scikit-learn may route, and those that it always passes.
_ROUTED = ("fit", "predict", "score")
_ALWAYS_PASSED = ("self", "X", "y")


class Regressor:
    """A regressor in scikit-learn's sense; its parameters are those of `__init__`."""

    @classmethod
    def param_names(cls) -> list[str]:
        """Return the names of all parameters, ascending."""
        return list(_defaults(cls))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, with `deep` also those of estimators among them."""
        params: dict[str, Any] = {}
        for name in self.param_names():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params |= {f"{name}__{key}": inner for key, inner in value.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; `model__power` is the parameter `power` of `model`."""
        nested: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in self.param_names():
                raise ValueError(
                    f"the parameters of {type(self).__name__} must be among "
                    f"{', '.join(self.param_names())}, got {own!r}; check the spelling."
                )
            if inner:
                nested.setdefault(own, {})[inner] = value
            else:
                setattr(self, name, value)
        for own, inner_params in nested.items():
            getattr(self, own).set_params(**inner_params)
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2 of what `predict` returns."""
        from sklearn.metrics import r2_score

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def predict(self, X: Any) -> Any:
        """Return what is expected of each row."""
        raise NotImplementedError

    def __repr__(self) -> str:
        defaults = _defaults(type(self))
        changed = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if repr(value) != repr(defaults[name])
        }
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return what notebooks show."""
        from sklearn.utils import estimator_html_repr

        return {"text/plain": repr(self), "text/html": estimator_html_repr(self)}

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags, Tags, TargetTags

        return Tags(
            estimator_type="regressor",
            target_tags=TargetTags(required=True),
            regressor_tags=RegressorTags(),
        )

    def get_metadata_routing(self) -> Any:
        """Return which arguments scikit-learn's searches and pipelines hand on to which method."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if hasattr(self, "_metadata_request"):
            return copy.deepcopy(self._metadata_request)
        request = MetadataRequest(owner=type(self).__name__)
        for method in _ROUTED:
            for name in inspect.signature(getattr(type(self), method)).parameters:
                if name not in _ALWAYS_PASSED:
                    getattr(request, method).add_request(param=name, alias=None)
        return request

    def set_fit_request(self, **aliases: Any) -> Any:
        """Say which arguments of `fit` are handed on; see scikit-learn's metadata routing."""
        return self._request("fit", aliases)

    def set_predict_request(self, **aliases: Any) -> Any:
        """Say which arguments of `predict` are handed on; see `set_fit_request`."""
        return self._request("predict", aliases)

    def set_score_request(self, **aliases: Any) -> Any:
        """Say which arguments of `score` are handed on; see `set_fit_request`."""
        return self._request("score", aliases)

    def _request(self, method: str, aliases: dict[str, Any]) -> Any:
        request = self.get_metadata_routing()
        for name, alias in aliases.items():
            getattr(request, method).add_request(param=name, alias=alias)
        self._metadata_request = request
        return self


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Return the default of each parameter, by names that ascend."""
    parameters = inspect.signature(kind).parameters
    return {name: parameters[name].default for name in sorted(parameters)}


def check_fitted(estimator: Any) -> None:
    """Raise scikit-learn's `NotFittedError` if an estimator is not fitted."""
    if not estimator.__sklearn_is_fitted__():
        from sklearn.exceptions import NotFittedError

        name = type(estimator).__name__
        raise NotFittedError(
            f"{name} must be fitted first, got one that is not fitted yet; call fit(X, y)."
        )


def cloned(estimator: Any) -> Any:
    """Return a new estimator with copies of the parameters, not fitted."""
    from sklearn.base import clone

    return clone(estimator)


def read_features(estimator: Any, X: Any, *, reset: bool, least: int = 1) -> np.ndarray:
    """Return features as an array of floats, with the columns of the fit.

    Args:
        estimator: Knows the columns, or with `reset` learns them.
        X: Features.
        reset: Whether these are the rows of a fit.
        least: Rows at least.
    """
    if _is_plain(X, 2, least) and _has_columns(estimator, X, reset=reset):
        return _as_floats(X)
    from sklearn.utils.validation import validate_data

    rules: Any = {"dtype": FLOATS, "ensure_all_finite": False, "ensure_min_samples": least}
    return np.asarray(validate_data(estimator, X, reset=reset, **rules))


def _has_columns(estimator: Any, X: np.ndarray, *, reset: bool) -> bool:
    """Return whether an array has the columns of the fit, without names; learn them at a fit."""
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
    has_names = hasattr(estimator, "feature_names_in_")
    return not has_names and X.shape[1] == estimator.n_features_in_


def check_names(estimator: Any, X: Any, *, reset: bool) -> None:
    """Compare the columns of a table with those of the fit; learn them at a fit."""
    from sklearn.utils.validation import validate_data

    validate_data(estimator, X, reset=reset, skip_check_array=True)


def read_numbers(name: str, values: Any, *, least: int = 1) -> np.ndarray:
    """Return numbers, one or several for each row, in double precision."""
    if any(_is_plain(values, ndim, least) for ndim in (1, 2)):
        return np.asarray(values, np.float64)
    from sklearn.utils import check_array

    rules: Any = {"dtype": np.float64, "ensure_2d": False, "ensure_all_finite": False}
    return np.asarray(check_array(values, input_name=name, ensure_min_samples=least, **rules))


def _is_plain(values: Any, ndim: int, least: int) -> bool:
    """Return whether values are numpy's numbers, as many as there must be."""
    return (
        type(values) is np.ndarray
        and values.dtype.kind in "fiu"
        and values.ndim == ndim
        and len(values) >= least
        and values.size > 0
    )


def _as_floats(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.type in FLOATS else values.astype(FLOATS[0])
