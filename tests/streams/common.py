"""What tests of streams share."""


def blocks(stream):
    """Yield all rows of a stream, run by run."""
    for run in stream.runs:
        yield from stream.in_order(run)
