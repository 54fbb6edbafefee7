"""Pages for any browser: one file that holds its styles, its scripts and its numbers.

A page is a list of sections. What a section shows is data; how it is drawn is a module of `web/`
under the name of its kind. Text of users is only ever in the data, which no browser runs, and the
modules set it as text. The policy names the one script and the one style by their hashes, so that
nothing else runs and nothing is fetched.
"""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WEB = files("firth.pages") / "web"
IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";\n', re.MULTILINE)
DATA = re.compile('<script type="application/json" id="data">(.*?)</script>')
EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
COMPRESSION = 6  # of zlib
FINEST = 4  # decimals that numbers are held with
COARSEST = 2  # numbers that are too large for so many are held as they are
LARGEST = {np.dtype(np.uint16): 65535, np.dtype(np.int16): 32767}
# In a page, none of these may stand for markup.
HARMLESS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Firth</title><style>{style}</style></head>
<body><noscript>This page draws its pictures with JavaScript, which is off here.</noscript>
<main id="page"></main>
<script type="application/json" id="data">{data}</script>
{arrays}<script type="module">{script}</script></body></html>
"""
FRAME = (
    '<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" width="100%" height="{height}"'
    ' style="border:0"></iframe>'
)
FRAME_HEIGHT = 900


class PageSection(NamedTuple):
    """A part of a page: the kind of picture, a heading, and what is shown."""

    kind: str  # the module of web/ that draws it
    title: str
    data: Mapping[str, Any]  # JSON, with arrays anywhere in it


class Fixed(NamedTuple):
    """Numbers of a picture as whole ones: how they are printed is how they are held."""

    whole: Array
    decimals: int


def fixed(numbers: Array) -> "Fixed | Array":
    """Return numbers rounded to four decimals, or fewer where they are large."""
    largest = float(np.abs(numbers).max(initial=0.0))
    smallest = float(numbers.min(initial=0.0))
    dtype = np.dtype(np.uint16) if smallest >= 0 else np.dtype(np.int16)
    for decimals in range(FINEST, COARSEST - 1, -1):
        if largest * 10**decimals < LARGEST[dtype]:
            whole = np.rint(numbers.astype(np.float64) * 10**decimals)
            return Fixed(whole.astype(dtype), decimals)
    return numbers.astype(np.float32)


def write_page(
    title: str,
    lead: Sequence[str],
    sections: Sequence[PageSection],
    main: str = "main",
    asks: bool = False,
) -> str:
    """Return a page: a title, some lines below it, and sections.

    `main` is the module of `web/` that draws it. A page that `asks` may fetch news from the server
    that it came from.
    """
    arrays: list[str] = []
    parts = []
    for section in sections:
        data = _with_arrays(section.data, arrays)
        parts.append({"kind": section.kind, "title": section.title, "data": data})
    data = _harmless({"title": title, "lead": list(lead), "sections": parts})
    blocks = []
    for number, packed in enumerate(arrays):
        blocks.append(f'<script type="text/plain" id="array-{number}">{packed}</script>\n')
    style = (WEB / "page.css").read_text(encoding="utf-8")
    script = bundle_modules(main)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    if asks:
        policy += "; connect-src 'self'"
    return PAGE.format(policy=policy, style=style, data=data, arrays="".join(blocks), script=script)


def page_head(page: str) -> tuple[str, list[str]] | None:
    """Return the title of a page and the lines below it; None of what `write_page` didn't make."""
    found = DATA.search(page)
    if found is None:
        return None
    try:
        data = json.loads(found[1])
        return str(data["title"]), list(map(str, data["lead"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def frame(page: str, height: int = FRAME_HEIGHT) -> str:
    """Return a page as a part of another one, such as a notebook, which it can't reach."""
    return FRAME.format(page=escape(page), height=height)


@cache
def bundle_modules(main: str = "main") -> str:
    """Return a module of `web/` and all that it imports as one script.

    Each stands after those that it imports, and is a function of its own, so that two may use a
    name for two things.
    """
    found: dict[str, str] = {}
    _collect(main, found)
    return "\n".join(found.values())


def _collect(name: str, found: dict[str, str]) -> None:
    """Add a module after those that it imports."""
    if name in found:
        return
    source = (WEB / f"{name}.js").read_text(encoding="utf-8")
    for _, needed in IMPORT.findall(source):
        _collect(needed, found)
    exported = ", ".join(exported for _, exported in EXPORT.findall(source))
    body = EXPORT.sub(r"\1", IMPORT.sub(r"const \1 = $\2;\n", source))
    found[name] = f"const ${name} = (() => {{\n{body}return {{ {exported} }};\n}})();\n"


def _hash(text: str) -> str:
    """Return the hash by which a policy names a script or a style."""
    digest = sha256(text.encode()).digest()
    return f"sha256-{b64encode(digest).decode()}"


def _harmless(data: Any) -> str:
    """Return data as JSON in which nothing can end the element that holds it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character, escaped in HARMLESS.items():
        text = text.replace(character, escaped)
    return text


def _with_arrays(value: Any, arrays: list[str]) -> Any:
    """Return data with a reference in place of each array, which is added to the others."""
    if isinstance(value, Fixed):
        return _packed(value.whole, arrays) | {"decimals": value.decimals}
    if isinstance(value, np.ndarray):
        return _packed(value, arrays)
    if isinstance(value, Mapping):
        return {str(key): _with_arrays(one, arrays) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_arrays(one, arrays) for one in value]
    return value


def _packed(array: Array, arrays: list[str]) -> dict[str, Any]:
    """Add an array, compressed, and return what the page's script needs to read it."""
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    packed = zlib.compress(little.tobytes(), COMPRESSION)
    arrays.append(b64encode(packed).decode())
    return {"array": len(arrays) - 1, "type": str(array.dtype), "shape": list(array.shape)}
