"""A fitted model on one page."""

from .page import make_report

__all__ = ["make_report"]
