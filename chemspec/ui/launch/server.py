"""Serve the app: Streamlit's server behind checks of hosts and limits, with the app's styles in the page."""

import logging
import socket
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import streamlit as st
import uvicorn.config
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from chemspec.asset_files import app_script, assets_folder
from chemspec.system import connections
from chemspec.system.host_check import ANY_INTERFACE, AllowedHosts, HostCheck
from chemspec.ui.launch import DEPTHS
from chemspec.ui.launch.middleware import SecurityHeaders, SocketLimits, UploadLimits
from chemspec.ui.launch.previews import preview_route

FIRST_PAGE = "predict"
EARLY = ("theme.css", "scheme.css", "answers.css", "early.css")  # files of assets/web for the first page
LOG = logging.getLogger("chemspec.app")


def run_server(allowed: AllowedHosts, *, host: str, port: int, headless: bool, watch: bool) -> None:
    """Serve until stopped; the working directory has Streamlit's settings.

    Args:
        allowed: the server's names.
        host: address to listen on.
        port: port to listen on.
        headless: open no browser.
        watch: rerun pages when a source file changes.

    Raises:
        ValueError: if the port cannot be listened on.
    """
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise ValueError(f"port {port} of {host} is in use or unusable; choose another --port or --host") from error
    sys.argv = [str(app_script())]  # Streamlit takes it for what was started
    refused = connections.Refusals(
        lambda counts: LOG.warning("refused: %s", ", ".join(f"{count} {what}" for what, count in counts.items()))
    )
    # Streamlit starts uvicorn itself and has no option for its protocol.
    uvicorn.config.HTTP_PROTOCOLS["auto"] = connections.limited_protocol(refused)
    around = [
        Middleware(SecurityHeaders),
        Middleware(HostCheck, allowed=allowed, links=True, refused=refused),
        Middleware(UploadLimits, refused=refused),
        Middleware(SocketLimits, refused=refused, most=max(1, connections.connection_limit() // 4)),
    ]
    app: Any = st.App(app_script(), middleware=around, routes=[preview_route(), *page_routes()])
    Thread(target=_warm_up, daemon=True, name="warm up").start()
    app.run(
        config={
            "server.address": host,
            "server.port": port,
            "server.headless": headless,
            "server.fileWatcherType": "auto" if watch else "none",
            "server.allowedHosts": ["*"],  # looked at before; the settings file has those for `streamlit run`
            "browser.gatherUsageStats": False,  # independent of the settings file
            # Without it Streamlit queries external servers for this machine's address, to print it at the start.
            "browser.serverAddress": "localhost" if host in ANY_INTERFACE else host,
        }
    )


def page_routes() -> list[Route]:
    """Return a route to each page of the app: Streamlit's HTML with styles, which are there before anything is drawn.

    What `st.html` sends arrives after the first pieces of a page are drawn, which then jump to where they belong; and
    the placeholder that Streamlit draws until a script speaks is narrower than the page.
    """
    web = assets_folder() / "web"
    styles = "".join((web / name).read_text(encoding="utf-8") for name in EARLY)
    html = Path(st.__file__).with_name("static").joinpath("index.html").read_text(encoding="utf-8")
    # Behind the styles that Streamlit adds to the head, which would win; before those of the page, dark ones above all.
    html = html.replace("<body>", f"<body><style>{styles}</style>", 1)

    async def send_page(_: Request) -> Response:
        return HTMLResponse(html, headers={"cache-control": "no-cache"})  # each its own: middleware changes the headers

    async def open_first_page(request: Request) -> Response:
        return RedirectResponse(f"./?{request.url.query}")  # Streamlit knows the first page by this address alone

    def open_depth(name: str) -> Any:
        async def redirect(request: Request) -> Response:
            return RedirectResponse(f"./learn?depth={name}&{request.url.query}")

        return redirect

    names = (file.stem for file in app_script().parent.glob("pages/*.py"))
    pages = (Route(f"/{name}", open_first_page if name == FIRST_PAGE else send_page) for name in names)
    return [Route("/", send_page), *pages, *(Route(f"/{name}", open_depth(name)) for name in DEPTHS)]


def _warm_up() -> None:
    from chemspec.ui.common import queued_engine  # here, so that the server is there before all of it is imported

    queued_engine.warm_up_models()
