"""The settings that the app is served with."""

from __future__ import annotations

import tomllib

from chemspec.asset_files import app_script
from chemspec.jobs import uploads


def test_the_settings_keep_errors_and_names_on_this_machine() -> None:
    settings = tomllib.loads((app_script().parent / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert settings["client"]["showErrorLinks"] is False  # buttons that send an error to a search engine
    assert settings["server"]["fileWatcherType"] == "none"  # it looks at every source file again and again
    assert settings["server"]["allowedHosts"] == ["127.0.0.1", "localhost"]
    assert settings["server"]["maxUploadSize"] == uploads.MAX_STOCK_MB
    assert settings["browser"]["gatherUsageStats"] is False
