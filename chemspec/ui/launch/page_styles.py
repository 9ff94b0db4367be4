"""Put styles into Streamlit's page.

What `st.html` sends arrives after the first pieces of a page are drawn, which then jump to where they belong; and the
placeholder that Streamlit draws until a script speaks is narrower than the page. Styles in the page itself are there
before anything is drawn.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Behind the styles that Streamlit adds to the head, which would win; before those of the page, dark ones above all.
_START = b"<body>"
# The page must come whole and unpacked: an answer "not modified" would be the page of an earlier version.
_LEFT_OUT = (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")


class StyledPage:
    """An ASGI application around another, whose HTML gets `styles` at the start of its body."""

    def __init__(self, app: ASGIApp, styles: str) -> None:
        self.app = app
        self.styles = styles.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; only HTML pages are changed."""
        is_page = scope["type"] == "http" and any(
            name == b"accept" and b"text/html" in value for name, value in scope["headers"]
        )
        if not is_page:
            await self.app(scope, receive, send)
            return
        headers = [pair for pair in scope["headers"] if pair[0] not in _LEFT_OUT]
        start: Message = {}
        body = b""

        async def whole(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            if dict(start["headers"]).get(b"content-type", b"").startswith(b"text/html"):
                body = body.replace(_START, _START + self.styles, 1)
            headers_left = [pair for pair in start["headers"] if pair[0] not in (b"content-length", b"etag")]
            length = (b"content-length", str(len(body)).encode())
            await send({**start, "headers": [*headers_left, length]})
            await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": headers}, receive, whole)
