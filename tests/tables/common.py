"""What tests of tables share: files and tables that can be read."""

from ngem.tables.opening import opened


def write(path, text):
    path.write_text(text)
    return path


def table_of(path):
    """A table that can be read: it is plain text or Parquet, so no copy of it is needed."""
    with opened(path) as table:
        return table


def table(path, text):
    return table_of(write(path, text))
