"""Take the picture of a report for the documentation: a wide light screen and a dark phone.

    python benchmarks/report_picture.py report.html

Writes docs/images/report.png. It needs Chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

OUT = Path(__file__).parents[1] / "docs/images/report.png"

#: Widths of the two screens, and their height.
WIDE, PHONE, HEIGHT = 1280, 500, 1560


def shot(page: Path, width: int, folder: Path, *options: str) -> Image.Image:
    """Return what a screen shows of a page."""
    out = folder / f"{width}.png"
    chromium = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    size = (f"--window-size={width},{HEIGHT}", f"--user-data-dir={folder / 'profile'}")
    command = [*chromium, *size, *options, f"--screenshot={out}", page.resolve().as_uri()]
    subprocess.run(command, check=True, capture_output=True)
    return Image.open(out).convert("RGB")


def main() -> None:
    """Take both pictures and join them."""
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        wide = shot(page, WIDE, Path(folder))
        phone = shot(page, PHONE, Path(folder), "--blink-settings=preferredColorScheme=0")
    both = Image.new("RGB", (WIDE + 24 + PHONE, HEIGHT), "white")
    both.paste(wide, (0, 0))
    both.paste(phone, (WIDE + 24, 0))
    small = both.resize((both.width * 3 // 4, both.height * 3 // 4), Image.Resampling.LANCZOS)
    # 256 colors look the same, in a third of the bytes. Rare colors, as of single dots, are kept.
    few = small.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(OUT, optimize=True)


if __name__ == "__main__":
    main()
