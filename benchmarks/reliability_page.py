"""Write the tables of docs/reliability.md from the results of `make stress` and `make mutate`.

python benchmarks/reliability_page.py
"""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def campaign() -> str:
    found = json.loads((DOCS / "results/reliability.json").read_text())
    lines = [
        "| what | tried | failed | answered | refused with an error of ours |",
        "|---|---|---|---|---|",
    ]
    for name, part in found["parts"].items():
        refused = part["outcomes"].get("refused", 0)
        right = part["tried"] - part["failed"] - refused
        lines.append(
            f"| {name} | {part['tried']:,} | {part['failed']:,} | {right:,} | {refused:,} |"
        )
    return "\n".join(lines)


def mutants() -> str:
    found = json.loads((DOCS / "results/mutations.json").read_text())
    names = ("killed", "timeout", "survived")
    lines = [
        f"{found['tried']} mutations were tried. Of those that are not known to be equivalent, "
        f"{found['killed_of_unequal']:.0%} were killed.",
        "",
        "| modules | killed | survived | of these, equivalent |",
        "|---|---|---|---|",
    ]
    for module, counts in found["counts"].items():
        killed, late, survived = (counts.get(name, 0) for name in names)
        same = [
            one
            for one in found["survivors"]
            if one["equivalent"] and module in ("all", one["module"])
        ]
        lines.append(f"| {module} | {killed + late} | {survived} | {len(same)} |")
    return "\n".join(lines)


def main() -> None:
    page = DOCS / "reliability.md"
    text = page.read_text(encoding="utf-8")
    for name, table in (("campaign", campaign()), ("mutations", mutants())):
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text = re.sub(pattern, lambda m, table=table: f"{m[1]}{table}{m[2]}", text, flags=re.S)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
