"""A page looked at by headless Chromium: what it does, not what it says.

The page is copied with a script of checks at its end, shown in frames of a phone's and of a desk's
width, and hands its findings to the page around, whose text Chromium prints.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
CHECKS = Path(__file__).with_name("checks.js")

_HARNESS = """<!doctype html><meta charset="utf-8"><pre id="found"></pre>{frames}<script>
const found = {{}};
addEventListener("message", ({{ data }}) => {{
  found[data.name] = data;
  document.getElementById("found").textContent = JSON.stringify(found);
}});
</script>"""


@dataclass(frozen=True)
class View:
    """How a page is looked at."""

    name: str
    width: int
    theme: str


VIEWS = (View("phone", 390, "light"), View("desk", 1280, "dark"))


def look(page: Path, work: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what the checks found in each view, and what the console was told."""
    assert CHROMIUM is not None
    copy = page.with_name("checked.html")
    script = f"<script>{CHECKS.read_text()}</script></body>"
    copy.write_text(page.read_text().replace("</body>", script))
    frames = "".join(
        f'<iframe src="{copy.as_uri()}?{view.name},{view.theme}" width="{view.width}" height="900">'
        "</iframe>"
        for view in VIEWS
    )
    harness = work / "harness.html"
    harness.write_text(_HARNESS.format(frames=frames))
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={work / 'profile'}", "--enable-logging=stderr"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=15000"]
    done = subprocess.run(
        [*command, harness.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
    copy.unlink()
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console
