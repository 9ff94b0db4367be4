"""Serve the app: `python -m chemspec.ui.launch --server.port 8501`, with the options of `streamlit run`.

`--allowed-host NAME` gives a further name of the server. A file in a folder of its own, because Streamlit puts the
folder of what is started onto the module path.
"""

import logging
import sys
from typing import Any

import streamlit as st
import uvicorn.config
from starlette.middleware import Middleware

from chemspec.asset_files import app_script, assets_folder
from chemspec.system import connections
from chemspec.system.host_check import ANY_INTERFACE, AllowedHosts, HostCheck
from chemspec.ui.launch import warm_up
from chemspec.ui.launch.middleware import SecurityHeaders, StyledPage, UploadLimits

EARLY = ("theme.css", "scheme.css", "answers.css", "early.css")  # of assets/web; the first page is Predict
LOG = logging.getLogger("chemspec.app")


def parse_option(value: str) -> bool | int | str:
    """Return an option's value as Streamlit's settings file would give it: a text "false" is no false."""
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdecimal() else value


def parse_command_line(words: list[str]) -> tuple[dict[str, Any], AllowedHosts]:
    """Return Streamlit's settings and the names of the server, from a command line."""
    pairs = list(zip(words[::2], words[1::2], strict=True))
    added = [value for name, value in pairs if name == "--allowed-host"]
    config: dict[str, Any] = {
        name.removeprefix("--"): parse_option(value) for name, value in pairs if name != "--allowed-host"
    }
    host = str(config.setdefault("server.address", "127.0.0.1"))
    # Without it Streamlit queries external servers for this machine's address, to print it at the start.
    config.setdefault("browser.serverAddress", "localhost" if host in ANY_INTERFACE else host)
    config["server.allowedHosts"] = ["*"]  # looked at before; the settings file has those for `streamlit run`
    return config, AllowedHosts.of(host, added)


def main(words: list[str]) -> int:
    """Serve until stopped."""
    config, allowed = parse_command_line(words)
    sys.argv = sys.argv[:1]
    refused = connections.Refusals(
        lambda counts: LOG.warning("refused: %s", ", ".join(f"{count} {what}" for what, count in counts.items()))
    )
    # Streamlit starts uvicorn itself and has no option for its protocol.
    limited: Any = connections.limited_protocol(refused, connections.connection_limit())
    uvicorn.config.HTTP_PROTOCOLS["auto"] = limited
    web = assets_folder() / "web"
    styles = "".join((web / name).read_text(encoding="utf-8") for name in EARLY)
    around = [
        Middleware(SecurityHeaders),
        Middleware(HostCheck, allowed=allowed, links=True, refused=refused),
        Middleware(UploadLimits, refused=refused),
        Middleware(StyledPage, styles=f"<style>{styles}</style>"),
    ]
    app: Any = st.App(app_script(), middleware=around)
    warm_up.start_warm_up()
    app.run(config=config)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
