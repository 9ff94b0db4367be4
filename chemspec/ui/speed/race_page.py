"""The page Speed: model, query and settings of a race, decoded with and without drafts, timed and replayed."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from chemspec.chem import formats
from chemspec.depict.molecules import Depiction
from chemspec.engine.engine import Engine
from chemspec.engine.registry import task_of_model
from chemspec.metrics import SpeedNumbers
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.replay import picture, timing
from chemspec.replay.timing import Lane, LaneFigures
from chemspec.settings import DecodeSettings
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.common import escaping, query_box, queued_engine, theme, web_files, widgets
from chemspec.ui.common.query_box import TASK_LABELS, QueryText, linked_query, show_reading, warn_unknown_model
from chemspec.ui.speed import trials

START_FLAG = "speed_race_start_go"  # in the session: start a race in this run of the script
BOX = QueryText("speed")


def choose_model() -> str:
    """Draw the choice of a model and return its name, at first the retro model; empty if none is installed."""
    names = queued_engine.model_names()
    if not names:
        return ""
    _follow_link(names)
    state = st.session_state
    if state.get("speed_model") not in names:
        state.speed_model = "retro" if "retro" in names else names[0]  # where most of an answer is copied
    return widgets.segmented_choice(
        "Question",
        names,
        format_func=_model_label,
        key="speed_model",
        hidden=True,
        persist_state="session",
        on_change=_model_changed,
    )


def _model_label(name: str) -> str:
    """Return the question that a model answers, of a second model with its name."""
    task = task_of_model(name) or ""
    return TASK_LABELS.get(name) or f"{task.capitalize()} by {name}".strip()


def choose_query(model: Engine) -> str:
    """Draw the query box; return the query as SMILES, or an empty text and show why the model cannot use it."""
    state = st.session_state
    if "speed_text" not in state:
        state.speed_text = query_box.load_examples(model.task)[0].smiles
    text, read = BOX.show_box(model.task, on_typed=BOX.store_text, on_submit=_query_submitted)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="speed_examples"):
        st.caption("Examples", width="content")
        for example in query_box.load_examples(model.task):
            key, name = f"speed_example_{example.name}", example.name
            st.button(name, key=key, help=example.line, on_click=BOX.set_text, args=(example.smiles,))
    show_reading(text, read)
    if not isinstance(read, formats.Input):
        if read is None:
            st.info("Type or paste a molecule above, or choose an example.")
        return ""
    ready = model.prepare(read.smiles)
    if ready.refusal:
        st.error(escaping.plain_text(ready.refusal.message))
        return ""
    state.speed_link = (model.name, read.smiles)
    if dict(st.query_params) != {"task": model.name, "smi": read.smiles}:
        st.query_params.from_dict({"task": model.name, "smi": read.smiles})
    return read.smiles


def _follow_link(names: list[str]) -> None:
    state = st.session_state
    linked = linked_query()
    if linked[1] and linked != state.get("speed_link"):
        state.speed_link = linked
        BOX.set_text(linked[1])
        if linked[0] in names:
            state.speed_model = linked[0]
        elif linked[0]:
            warn_unknown_model(linked[0])


def _query_submitted(text: str) -> None:
    BOX.store_text(text)
    st.session_state[START_FLAG] = True


def _model_changed() -> None:
    """Another model: an example of the old task makes no sense for it, a visitor's own text may."""
    if st.session_state.get("speed_text") in {example.smiles for example in query_box.load_examples()}:
        BOX.set_text("")
        del st.session_state["speed_text"]


MAX_ANSWERS = 50  # of a timed search: as many as the page Predict searches
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)
_KEY = "speed_lane1"  # in the session: the settings of the lane with drafts


def choose_lanes(offered: Sequence[str]) -> tuple[DecodeSettings, DecodeSettings]:
    """Draw the widgets of a race; return its lanes: standard decoding, and the same search with a chosen drafter."""
    state = st.session_state
    line = st.empty()
    keep: Any = {"persist_state": "session"}
    with st.expander("Settings"):  # a label that changed would close it
        parts = st.columns([1.3, 0.8, 1.3, 1, 1], vertical_alignment="bottom")
        decoder = parts[0].selectbox(
            "Decoder",
            comparable_decoders(),
            format_func=lambda name: DECODERS[name].label,
            help=DECODER_HELP,
            key=f"{_KEY}_decoder",
            **keep,
        )
        state.setdefault(f"{_KEY}_n", 5)
        greedy = decoder == "greedy"
        n = parts[1].number_input("Answers", 1, MAX_ANSWERS, key=f"{_KEY}_n", disabled=greedy, **keep)
        titles = {name: DRAFTERS[name].title for name in offered if name != "none"}
        about = "Drafting method. The page How it works compares them."
        with parts[2]:
            drafter = widgets.offered_choice("Drafter", titles, key=f"{_KEY}_drafter", help=about)
        about = "Maximum, in tokens; 0 leaves it to the drafter."
        length = parts[3].number_input("Draft length", 0, 100, key=f"{_KEY}_length", help=about, **keep)
        about = "Maximum number of drafts in a pass; 0 leaves it to the drafter."
        count = parts[4].number_input("Drafts", 0, 100, key=f"{_KEY}_count", help=about, **keep)
    if drafter == "auto" and DECODERS[decoder].default_drafter != "auto":
        length = count = 0  # sizes have no effect there
    drafted = DecodeSettings(
        decoder=decoder,
        n=1 if greedy else int(n),
        drafter=drafter,
        drafting="fixed" if length or count else "planned",  # chosen sizes are used as they are
        draft_length=int(length),
        draft_count=int(count),
    )
    lanes = (timing.standard_of(drafted), drafted)
    line.markdown("**" + "** against **".join(map(timing.setting_name, lanes)) + "**")
    return lanes


def race_against_standard(settings: DecodeSettings) -> None:
    """Race these settings against standard decoding as soon as the page Speed opens."""
    decoder = settings.decoder if settings.decoder in comparable_decoders() else "greedy"
    drafter = "auto" if settings.drafter == "none" else settings.drafter
    lane = {"decoder": decoder, "n": min(settings.n, MAX_ANSWERS), "drafter": drafter, "length": 0, "count": 0}
    st.session_state.update({f"{_KEY}_{field}": value for field, value in lane.items()} | {START_FLAG: True})


def comparable_decoders() -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random]


# --- the race --------------------------------------------------------------------------------------


def show_race_page(model: Engine, query: str) -> None:
    """Draw the race, which starts by itself, and its settings; any click ends it and shows the runs made so far."""
    results = st.container()
    with st.container(key="speed_lanes"):
        lanes = choose_lanes(queued_engine.usable_drafters(model.name)[0])
        about = "Runs of each lane after a warm-up; the median counts."
        options: Any = {"default": 5, "persist_state": "session", "help": about}
        repeats = widgets.segmented_choice("Repeats", (3, 5, 11), key="speed_repeats", **options)
    state = st.session_state
    if "speed_race" not in state:
        state.setdefault(START_FLAG, True)
    with results:
        running = bool(state.pop(START_FLAG, False))
        # Two keys, one position: a click on Stop when the run has just ended must not start another race.
        if running:
            st.button("Stop", key="speed_race_stop", shortcut="Ctrl+Enter", width=240)
        else:
            start = partial(state.update, {START_FLAG: True})
            options = {"type": "primary", "shortcut": "Ctrl+Enter", "width": 240}
            st.button("Start the race", key="speed_race_start", on_click=start, **options)
        placeholder = st.empty()
        if running:
            state.speed_race = trials.new_trial(model, query, lanes, repeats=repeats)
            trials.run_trial(state.speed_race, model, placeholder.progress(0.0).progress)
            st.rerun()
        with placeholder.container():
            if "speed_race" in state:
                show_trial(state.speed_race, current=(model.name, query, lanes))


def show_trial(trial: trials.Trial, *, current: tuple[str, str, tuple[DecodeSettings, ...]]) -> None:
    """Show replay, figures and table of one race; `current` is what the form holds now."""
    lanes = timing.lane_figures(trial.settings, trial.answered_rounds)
    show_problems(trial)
    if current != (trial.model, trial.query, trial.settings):
        st.info("These results are of an earlier query or choice; start again for the present one.")
    if not lanes:
        return
    answer = next(results for results in trial.answered_rounds if results)[0].hypotheses[0]
    rounds = zip(trial.settings, trial.answered_rounds, strict=True)
    runs = [(setting, timing.median_run(results)) for setting, results in rounds if results]
    recorded = [Lane.from_result(timing.setting_name(setting), result) for setting, result in runs]
    recorded = recorded if trial.quiet else [lane.without_times() for lane in recorded]
    show_replay(recorded, [setting for setting, _ in runs], race_id=f"{id(trial)}-{trial.done}-{trial.machine}")
    show_downloads(trial.model, recorded, [result for _, result in runs])
    left, right = st.columns([3, 1], vertical_alignment="center")
    with left:
        widgets.show_figures(headline_figures(lanes, quiet=trial.quiet))
    with right:
        if svg := Depiction(answer.canonical, 260, 120, dark=theme.is_dark()).svg:
            st.image(svg, alt=f"The answer: {answer.smiles}")
        else:
            st.caption("no drawing: the text is no molecule that can be drawn")
    if trial.shared:
        st.warning(
            "Other visitors or a batch job were using this server during the run, so these times may be off. Run it "
            "again for better ones."
        )
    elif not trial.quiet:
        st.warning(
            f"The server was busy when the run began ({trial.load:.0f} programs for {usable_cores()} cores), so these "
            "times may be off."
        )
    show_table(lanes, times=trial.quiet)
    if not trial.quiet:
        with st.expander("Show times measured on a busy machine"):
            show_table(lanes, times=True)
    st.caption(trial.machine)


def headline_figures(lanes: Sequence[LaneFigures], *, quiet: bool) -> list[tuple[str, str]]:
    """Return the figures of the fastest drafted lane, an exact one if there is one, against its standard.

    Passes come first: they are exact on any machine. Times follow only where the machine was quiet and the quartiles of
    the two lanes do not overlap.
    """
    drafted = [lane for lane in lanes if lane.speedup is not None and not timing.is_standard(lane.settings)]
    if not drafted:
        return []
    best = min(drafted, key=lambda lane: (not lane.settings.exact, lane.time.median))
    base = next(lane for lane in lanes if lane.settings == timing.standard_of(best.settings))
    same = ("yes" if best.same else "no", "same answer")
    if best.passes == base.passes and not best.counts.accepted:
        why = "no draft was accepted" if best.counts.drafted else "this search was not drafted"
        label = f"{timing.setting_name(best.settings)}, as without drafts: {why}"
        return [(timing.format_passes(best.passes), label), same]
    label = f"{timing.setting_name(best.settings)}, instead of {timing.format_count(base.passes)}"
    figures = [(timing.format_passes(best.passes), label)]
    if best.settings.exact:
        figures.append((f"{best.counts.tokens_per_pass:.1f}", "tokens per pass"))
    if quiet and (best.time.high < base.time.low or base.time.high < best.time.low):
        figures.append((timing.format_ms(best.time.median), f"instead of {timing.format_ms(base.time.median)}"))
        figures.append((timing.format_speedup(best.speedup or 1.0), "by the medians of the runs"))
    return [*figures, same]


COLUMNS = {
    "setting": st.column_config.TextColumn("setting", width="medium"),
    "time": st.column_config.NumberColumn(
        "time, ms",
        format="%.2f",
        help="Wall clock from the start of decoding to the last pass, everything included; the median of the runs",
    ),
    "quartiles": st.column_config.TextColumn("quartiles"),
    "speed-up": st.column_config.NumberColumn(
        format="%.2f ×",
        help="Median time of the cached standard decoder of the same search, over the median time of this setting, in "
        "the same run",
    ),
    "passes": st.column_config.NumberColumn(format="%.4g", help="Forward passes of the decoder for one answer"),
    "tokens per pass": st.column_config.NumberColumn(format="%.2f", help=SpeedNumbers.tokens_per_pass.__doc__),
    "acceptance rate": st.column_config.NumberColumn(format="percent", help=SpeedNumbers.acceptance_rate.__doc__),
    "nodes per pass": st.column_config.NumberColumn(format="%.1f", help=SpeedNumbers.nodes_per_pass.__doc__),
    "same answer": st.column_config.TextColumn(
        help="Whether all answers are those of the standard decoder, token by token and in order. An exact decoder can "
        "differ only where two choices are equal within rounding; SBS is relaxed: its drafts can change the answers."
    ),
}


def show_table(lanes: Sequence[LaneFigures], *, times: bool) -> None:
    """Show the measured settings as a table, with `times` or without."""
    st.caption(f"Medians over {lanes[0].time.runs} runs each. Point at a heading for its definition.")
    rows = []
    for lane in lanes:
        row: dict[str, Any] = {"setting": timing.setting_name(lane.settings)}
        if times:
            quartiles = f"{timing.format_ms(lane.time.low)} to {timing.format_ms(lane.time.high)}"
            row |= {"time": lane.time.median, "quartiles": quartiles, "speed-up": lane.speedup}
        row["passes"] = lane.passes
        row["tokens per pass"] = lane.counts.tokens_per_pass if lane.settings.exact else None
        row["acceptance rate"] = lane.counts.acceptance_rate if lane.settings.exact else None
        row["nodes per pass"] = lane.counts.nodes_per_pass
        same = {None: "", True: "yes", False: "no"}[lane.same]
        row["same answer"] = "reference" if timing.is_standard(lane.settings) else same
        rows.append(row)
    st.dataframe(rows, hide_index=True, column_config=COLUMNS, placeholder="–", alt="Results")


def show_problems(trial: trials.Trial) -> None:
    """Say why runs failed, or that the race was stopped before its end."""
    if trial.problem:
        what = "These settings are not supported" if trial.refusal else "Some runs gave no answer"
        st.error(f"{what}: {escaping.plain_text(trial.problem)}")
    if trial.done < trial.total and not trial.refusal:
        done = f"{trial.done} of {trial.total} runs were made"
        st.warning(f"Stopped: {done}. " + ("The figures are of those." if trial.done else "Start again."))


CAPTION = (
    "These are recorded runs, made one after the other on the server, never together, and replayed side by side: "
    "of each setting the run with the median time."
)
BUSY_CAPTION = (
    "These are recorded runs, made one after the other on the server, which was busy: they are replayed pass by pass, "
    "every pass as long as another. A pass that checks drafts costs a little more than one of a single token."
)
FIRST_OF_BEAM = "first answer of the search"
SPREAD_EVENLY = f"{FIRST_OF_BEAM}, spread evenly over its passes: the record does not tell which wrote which token"


def show_replay(lanes: Sequence[Lane], settings: Sequence[DecodeSettings], *, race_id: str) -> None:
    """Show lanes to play, pause and scrub; starts by itself unless the visitor asked for less motion.

    Args:
        lanes: of recorded runs; those without times play pass by pass, as on a busy machine.
        settings: of each.
        race_id: changes with the race, so that the replay of the one before stops.
    """
    clock = all(lane.timed for lane in lanes)
    data = {
        "id": race_id,
        "caption": CAPTION if clock else BUSY_CAPTION,
        "clock": clock,
        "lanes": list(map(lane_data, lanes, settings)),
    }
    web_files.component("race", '<div class="race"></div>')(data=data, key="speed_replay")


def lane_data(lane: Lane, settings: DecodeSettings) -> dict[str, Any]:
    """Return a lane as JSON values: a token is its text and its kind, `by` has the pass that wrote each."""
    tokens = [(token.text, "own" if token.kind == "own" else "copied") for token in lane.tokens]
    return {
        "name": lane.name,
        "note": SPREAD_EVENLY if not settings.exact else FIRST_OF_BEAM if settings.decoder == "beam" else "",
        "ms": lane.milliseconds,
        "ends": lane.ends,
        "tokens": [(text, "end" if text == timing.END else kind) for text, kind in tokens],
        "by": [token.written_by for token in lane.tokens],
    }


def show_downloads(model: str, lanes: Sequence[Lane], results: Sequence[DecodeResult]) -> None:
    """Offer the replay as an animated picture, in the colours of the page."""

    def write(kind: str) -> bytes:
        first = results[0]
        same = all(timing.same_answers(first, result) for result in results)
        drawn = picture.build_picture(
            lanes,
            title=f"{model}: standard and speculative decoding",
            query=first.smiles,
            answer=first.hypotheses[0].canonical,
            conclusion="the same answer, token by token" if same else "the answers differ",
            dark=theme.is_dark(),
        )
        return picture.replay_bytes(drawn, kind)

    with st.popover("Save replay", type="tertiary"):
        for kind in ("svg", "webp", "gif"):
            st.download_button(
                kind.upper(), partial(write, kind), f"replay.{kind}", key=f"speed_replay_{kind}", on_click="ignore"
            )
        st.caption("An animated picture of ten seconds: SVG for web pages, WebP or GIF for slides.")
