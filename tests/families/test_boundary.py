"""Code outside `families` knows the contract, and no family."""

import ast
from pathlib import Path

import ngem
from ngem.families import FAMILIES, FAMILY_NAMES

SOURCE = Path(ngem.__file__).parent

#: What needs Gaussians: the default of a mixture and `gaussian_mixture`, the default of a network,
#: and estimators of other libraries, whose mixtures are Gaussian.
NEED_GAUSSIANS = {"mixture/mixture.py", "nn/head.py", "estimator/foreign.py"}

#: Texts: defaults of estimators and old files, the old spelling of a family, PyTorch modules, and
#: a column of results.
HAVE_DEFAULTS = {
    "estimator/boosting_regressor.py": {"gaussian"},
    "estimator/model_file.py": {"gaussian", "logistic"},
    "estimator/parameters.py": {"logistic"},
    "estimator/regressor.py": {"gaussian"},
    "estimator/to_torch.py": {"gaussian"},
    "tables/messages.py": {"gaussian"},
}

#: Words that are also other things: columns of results, names of experiments.
OTHER = ("repro", "torch", "bench", "families", "demo.py")


def _files():
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(OTHER):
            yield name, ast.parse(path.read_text())


def test_no_other_file_imports_a_family():
    kinds = {kind.__name__ for kind in FAMILIES.values()}
    found = {
        name
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and kinds & {alias.name for alias in node.names}
    }
    assert found == NEED_GAUSSIANS


def test_no_other_file_names_a_family():
    found, names = {}, {*FAMILY_NAMES} - {"categorical"}  # which is a kind of column too
    for name, tree in _files():
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        named = {text for text in texts if isinstance(text, str) and text in names}
        if named:
            found[name] = named
    assert found == HAVE_DEFAULTS
