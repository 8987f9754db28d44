"""The page around the sections: one offline file, whose only script is the one that is hashed."""

import base64
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from latentmdp._version import __version__
from latentmdp.report.encode import safe_json
from latentmdp.report.html import TEMPLATES, with_seen_text


def render_page(
    title: str,
    lead: str,
    parts: Sequence[tuple[str, str, Markup]],
    data: dict[str, Any],
    scripts: Sequence[str],
    need: str = "",
) -> str:
    """The whole page; `parts` are `(id, name in the contents, section)`.

    `scripts` names files of `page/`, which share one scope; `data` is what they read. `need`: what
    a reader without JavaScript misses.
    """
    folder = files("latentmdp.report") / "page"
    source = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in scripts]
    script = '"use strict";\n(() => {\n' + "\n".join(source) + "\n})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    return TEMPLATES.get_template("page.html").render(
        title=with_seen_text(title),
        lead=with_seen_text(lead),
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        style=(folder / "page.css").read_text(encoding="utf-8"),
        parts=[(ident, name, Markup(with_seen_text(made))) for ident, name, made in parts],
        need=need,
        data=safe_json(data),
        script_hash=f"sha256-{digest}",
        script=script,
    )
