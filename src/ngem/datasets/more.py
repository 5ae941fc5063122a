"""Tables that we use but do not download: files in the directory `more` of NGEM_DATA_DIR."""

from pathlib import Path

from .._errors import DataError
from .files import DATA_DIR, data_directory


def table_path(file: str) -> Path:
    """Return the path of a table, such as `medexp.csv`.

    Raises:
        DataError: If it is not there.
    """
    directory = data_directory()
    path = None if directory is None else directory / "more" / file
    if path is None or not path.exists():
        raise DataError(
            f"the table {file} must be in the directory more of {DATA_DIR}, got none; "
            "docs/data.md says where it comes from."
        )
    return path
