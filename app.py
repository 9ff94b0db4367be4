"""The app's navigation; nothing else."""

import streamlit as st

pages = [st.Page("pages/predict.py", title="Predict", url_path="predict", default=True)]
st.set_page_config(page_title="chemspec", layout="wide")
st.navigation(pages).run()
