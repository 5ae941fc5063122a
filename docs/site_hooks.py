"""MkDocs hooks: the version beside the name; every report of a run on the page of results."""

import tomllib
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Show for which version the site was made."""
    project = tomllib.loads(Path(config.config_file_path).with_name("pyproject.toml").read_text())
    config.site_name = f"{config.site_name} {project['project']['version']}"
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace the placeholder on the page of results by one line per report."""
    if page.file.src_uri != "results/index.md":
        return markdown
    reports = sorted(Path(config.docs_dir, "results").glob("*/report.md"), key=_by_number)
    return markdown.replace("<!-- reports -->", "\n".join(map(_line, reports)))


def _by_number(report: Path) -> tuple[str, int]:
    """Return a sort key with fig2 before fig10."""
    word = report.parent.name.rstrip("0123456789")
    return word, int(report.parent.name[len(word) :] or 0)


def _line(report: Path) -> str:
    title = report.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    return f"- [{title}]({report.parent.name}/report.md)"
