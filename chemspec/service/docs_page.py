"""The page /docs: the OpenAPI document as HTML that loads nothing else and runs no script."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

DOCS_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"}
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
nav a { margin-right: 1rem }
section { border-top: 1px solid #8886; margin-top: 1.5rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { overflow-x: auto; padding: .7rem; background: #8882 }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8883 }
summary { cursor: pointer }
"""


def render_docs(document: Mapping[str, Any]) -> str:
    """Return an OpenAPI document as a page: routes with their fields, answers, errors and a command to try."""
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    links = "".join(f'<a href="#{escape(each["operationId"])}">{escape(path)}</a> ' for path, _, each in operations)
    schemas = document["components"]["schemas"]
    info = document["info"]
    title = f"{escape(info['title'])} {escape(info['version'])}"
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>',
        f"<h1>{title}</h1><p>{escape(info['description'])}</p>",
        '<p>The document for programs: <a href="openapi.json">openapi.json</a>. A key, if the service needs one,',
        "is sent as <code>X-API-Key</code> or <code>Authorization: Bearer</code>.</p>",
        f"<nav>{links}</nav>",
        *(_section(path, method, operation, schemas) for path, method, operation in operations),
        "<h2>Objects</h2>",
        *(_object(name, schema) for name, schema in schemas.items()),
        "</html>",
    ]
    return "\n".join(parts)


def _section(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    name = escape(operation["operationId"])
    parts = [f'<section id="{name}"><h2><code>{method.upper()} {escape(path)}</code></h2>']
    parts += [f"<p>{escape(operation.get('description', ''))}</p>"]
    for parameter in operation.get("parameters", ()):
        words = escape(parameter.get("description", ""))
        parts.append(f"<p><code>{escape(parameter['name'])}</code> ({escape(parameter['in'])}) {words}</p>")
    if body := operation.get("requestBody"):
        schema = body["content"]["application/json"]["schema"]
        for example in schemas[_name(schema)].get("examples", [])[:1]:
            data = escape(json.dumps(example), quote=False)
            header = "-H 'Content-Type: application/json'"
            parts.append(f"<pre>curl -s localhost:8000{escape(path)} {header} \\\n  -d '{data}'</pre>")
        parts.append(f"<p>Body: {_type(schema)}</p>")
    rows = "".join(_response_row(status, each) for status, each in operation["responses"].items())
    return "".join([*parts, f"<table><tr><th>status</th><th></th><th>content</th></tr>{rows}</table></section>"])


def _response_row(status: str, response: Mapping[str, Any]) -> str:
    content = [_type(each.get("schema", {})) or escape(kind) for kind, each in response.get("content", {}).items()]
    return f"<tr><td>{status}</td><td>{escape(response['description'])}</td><td>{', '.join(content)}</td></tr>"


def _object(name: str, schema: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code>{'' if field in schema.get('required', ()) else ' (optional)'}</td>"
        f"<td>{_type(each)}</td><td>{escape(each.get('description', ''))} {' '.join(_limits(each))}</td></tr>"
        for field, each in schema.get("properties", {}).items()
    )
    words = escape(schema.get("description", ""))
    return f'<section id="of-{escape(name)}"><h3>{escape(name)}</h3><p>{words}</p><table>{rows}</table></section>'


def _limits(schema: Mapping[str, Any]) -> Iterator[str]:
    if "default" in schema:
        yield f"default {escape(json.dumps(schema['default']))}"
    for word in ("minimum", "exclusiveMinimum", "maximum", "maxLength"):
        if word in schema:
            yield f"{word} {schema[word]}"


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _type(schema: Mapping[str, Any]) -> str:
    """Return a type in words, with links to objects."""
    if name := escape(_name(schema)):
        return f'<a href="#of-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return escape(str(schema.get("type", "")))
