"""The app's server: Streamlit's, with the app's styles in the page."""
