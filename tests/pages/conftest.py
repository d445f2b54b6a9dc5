"""Chromium without a window, driven by a script that the test adds to a copy of the page."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
DARK, LIGHT = 0, 1


@pytest.fixture
def browser(tmp_path: Path) -> Callable[..., Any]:
    """Open a page and return what a script answers: `browser(path, script, width=420)`.

    The script runs once the page is ready and returns a JSON value.  Any error on the page, and any
    address that the page wants to load, fails the test.
    """
    if not CHROMIUM:
        pytest.skip("Chromium is not installed (Debian: apt install chromium)")

    def run(page: Path, script: str, *, width: int = 1200, scheme: int = LIGHT) -> Any:
        text = page.read_text(encoding="utf-8")
        guard = "<script>var errors = []; onerror = (text) => errors.push(text);</script>"
        answer = (
            "<script>(async () => { for (let i = 0; i < 200 && !document.body.dataset.ready; i++)"
            " await new Promise((go) => setTimeout(go, 20));"
            f" let found = null; try {{ found = await (async () => {{ {script} }})(); }}"
            " catch (error) { errors.push(String(error)); }"
            " parent.postMessage(JSON.stringify({ found, errors }), '*'); })();</script>"
        )
        copy = tmp_path / f"{page.stem}-{width}-{scheme}.html"
        copy.write_text(text.replace("<head>", f"<head>{guard}", 1) + answer, encoding="utf-8")
        # A window is at least 500 pixels wide, a frame may be as narrow as a phone.
        frame = tmp_path / f"{copy.stem}-frame.html"
        frame.write_text(
            "<!doctype html><body><script>onmessage = (event) => {"
            " const out = document.createElement('pre'); out.id = 'answer';"
            " out.textContent = event.data; document.body.append(out); };</script>"
            f'<iframe width="{width}" height="900" frameborder="0" src="{copy.name}"></iframe>'
        )
        command = [
            *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width + 40},1000"),
            *("--virtual-time-budget=20000", f"--blink-settings=preferredColorScheme={scheme}"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", frame.as_uri()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        match = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, flags=re.DOTALL)
        assert match, done.stderr[-2000:]
        result = json.loads(unescape(match[1]))
        assert result["errors"] == []
        return result["found"]

    return run
