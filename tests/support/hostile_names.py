"""Names that try to break out of a page, and a TOML file that has them."""

NAMES = {
    "script": "<script>alert(1)</script>",
    "end of script": "</script><script>alert(2)</script>",
    "comment": "--><!--<script>alert(3)</script>",
    "picture": "<img src=x onerror=alert(4)>",
    "vector": "<svg/onload=alert(5)>",
    "attribute": "\" onmouseover=alert(6) autofocus onfocus=alert(7) x=\"",
    "apostrophe": "' onmouseover='alert(8)' x='",
    "title": "</title><script>alert(9)</script>",
    "text area": "</textarea></style></svg><script>alert(10)</script>",
    "link": "javascript:alert(11)",
    "entity": "&lt;b&gt; &amp;amp; &#x3c;script&#x3e;",
    "template": "{{7*7}} {% raw %} ${alert(12)} %s {0}",
    "loads": "<link rel=stylesheet href=//example.invalid/x><base href=//example.invalid>",
    "frame": "<iframe srcdoc='<script>parent.alert(13)</script>'></iframe>",
    "right to left": "ab\u202egnp.exe\u202c",
    "isolates": "\u2067\u2066\u202d abc",
    "null": "nu\0ll",
    "controls": "bell\x07 escape\x1b[31m delete\x7f next\x85line",
    "lines": "one\ntwo\r\nthree\ttabs",
    "separators": "line\u2028paragraph\u2029end",
    "long": "long" + "x" * 9_000,
    "wide": "\U0001f469\u200d\U0001f469\u200d\U0001f467 größer 語",
    "formula": "=HYPERLINK(\"http://example.invalid\")",
    "selector": "#runs tbody, * { display: none }",
    "empty text": " ",
    "noncharacter": "\ufffe\uffff\U0010ffff",
}  # fmt: skip


def quoted(text: str) -> str:
    """As a TOML string."""
    return '"' + "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\U{ord(c):08x}" for c in text
    ) + '"'  # fmt: skip
