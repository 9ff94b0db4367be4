"""The app's server: Streamlit's, with the app's styles in the page."""

DEPTHS = ("step", "speed")  # pages of earlier versions: their addresses lead to depths of the page How it works
