"""Draws the README's pictures: what the steps of `git mem tour` show on a terminal, as SVG by rich.

No font is fetched: the text is in the reader's own monospace font, and rich's `textLength` keeps
the columns. rich is pinned (pyproject.toml, tools/test.sh), since its releases draw differently.
"""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text
from worked_examples import WIDTH, steps

# rich's own format without its @font-face of a CDN, and smaller.
FORMAT = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-ligatures: none;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

# name: (title, the steps shown)
PICTURES = {
    "session": ("remember, recall, and what became stale", range(1, 8)),
    "agent": ("what an agent is told at a session's start and with a prompt", range(9, 11)),
}


def pictures() -> dict[str, str]:
    """{file, relative to the repository: its SVG}."""
    return {f"docs/pictures/{name}.svg": _drawn(name) for name in PICTURES}


def _drawn(name: str) -> str:
    title, shown = PICTURES[name]
    console = Console(
        record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", legacy_windows=False
    )
    for n, (_, command, said) in enumerate(steps()):
        if n in shown:
            for typed in command.split("\n"):
                console.print(Text.assemble(("$ ", "green"), (typed, "bold")))
            console.print(Text.from_ansi(f"{said}\n" if said else ""))
    svg = console.export_svg(title=title, code_format=FORMAT, unique_id=name)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"
