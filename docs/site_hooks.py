"""MkDocs hooks: the version beside the name, reports on the page of results, notebooks as pages."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Show for which version the site was made."""
    project = tomllib.loads(Path(config.config_file_path).with_name("pyproject.toml").read_text())
    config.site_name = f"{config.site_name} {project['project']['version']}"
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Replace placeholders: by one line per report, or by the cells of a notebook."""
    notebook = re.match(r"<!-- notebook: (\w+) -->", markdown)
    if notebook:
        name = f"{notebook[1]}.ipynb"
        path = Path(config.docs_dir, "notebooks", name)
        return f"{as_markdown(json.loads(path.read_text(encoding='utf-8')))}\n[{name}]({name})\n"
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


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return the cells of a notebook, with what they show."""
    return "\n".join(part for cell in notebook["cells"] for part in _cell(cell))


def _cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [f"{source}\n"]
    return [f"```python\n{source}\n```\n", *map(_output, cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    image = output.get("data", {}).get("image/png")
    if image:
        return f"![what the cell draws](data:image/png;base64,{image})\n"
    text = "".join(output["text"] if "text" in output else output["data"]["text/plain"])
    return f'```text title="Output"\n{text.rstrip()}\n```\n'
