"""A fitted model on one page."""

from .page import Table, make_report

__all__ = ["Table", "make_report"]
