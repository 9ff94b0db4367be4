"""The depth Speed of the page How it works: a query decoded with and without drafts, timed and replayed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import streamlit as st

from chemspec.engine.engine import Engine
from chemspec.jobs import job_queue
from chemspec.plugins import DECODERS, DRAFTERS
from chemspec.replay import picture, timing
from chemspec.replay.timing import Lane
from chemspec.replay.trace_view import END
from chemspec.settings import DecodeSettings
from chemspec.system import host
from chemspec.system.threads import usable_cores
from chemspec.types import DecodeResult
from chemspec.ui.common import escaping, queued_engine, theme, web_files, widgets

Lanes = tuple[DecodeSettings, DecodeSettings]  # standard decoding, and the same search with drafts
START_FLAG = "speed_race_start_go"  # session key: start a race in this run of the script


MAX_ANSWERS = 50  # answers of a timed search: as many as the page Predict searches
DECODER_HELP = (
    "Greedy writes the best token at every step. Beam search keeps the n best texts. Both are exact: drafts never "
    "change the answer. SBS (Andronov et al. 2024) is relaxed: its drafts can change the answers."
)


def choose_lanes(offered: Sequence[str]) -> Lanes:
    """Draw the widgets of a race; return its lanes: standard decoding, and the same search with a chosen drafter."""
    keep: Any = {"persist_state": "session"}
    with st.popover("Settings"):
        search, count, drafts = st.columns(3, vertical_alignment="bottom")
        decoder = search.selectbox(
            "Decoder",
            comparable_decoders(),
            format_func=lambda name: DECODERS[name].label,
            help=DECODER_HELP,
            key="speed_decoder",
            **keep,
        )
        st.session_state.setdefault("speed_n", 5)
        greedy = decoder == "greedy"
        n = count.number_input("Answers", 1, MAX_ANSWERS, key="speed_n", disabled=greedy, **keep)
        titles = {name: DRAFTERS[name].title for name in offered if name != "none"}
        with drafts:
            about = (
                "Where guesses (drafts) of the next tokens come from. copy: the query; mixed: the query and edits that "
                "were frequent in training; auto: these, where they save time. The part Drafters compares them."
            )
            drafter = widgets.offered_choice("Drafter", titles, key="speed_drafter", help=about)
    drafted = DecodeSettings(decoder=decoder, n=1 if greedy else int(n), drafter=drafter)
    return timing.standard_of(drafted), drafted


def _start_race() -> None:
    st.session_state[START_FLAG] = True


def race_against_standard(settings: DecodeSettings) -> None:
    """Race these settings against standard decoding as soon as the depth Speed opens."""
    decoder = settings.decoder if settings.decoder in comparable_decoders() else "greedy"
    drafter = "auto" if settings.drafter == "none" else settings.drafter
    lane = {"speed_decoder": decoder, "speed_n": min(settings.n, MAX_ANSWERS), "speed_drafter": drafter}
    st.session_state.update({**lane, START_FLAG: True})


def comparable_decoders() -> list[str]:
    """Return the decoders whose answers depend on nothing but the query, greedy first: others cannot be compared."""
    specs = sorted(DECODERS.values(), key=lambda spec: spec.name != "greedy")
    return [spec.name for spec in specs if not spec.random]


# --- the race --------------------------------------------------------------------------------------

# Gets the share done (0 to 1) and one line; it is one Streamlit call, at which a stop takes effect.
Progress = Callable[[float, str], Any]
BUSY = 1.5  # running programs for each core, above which times are doubted


@dataclass(frozen=True)
class Race:
    """Runs of one query under two settings."""

    model: str
    query: str
    lanes: Lanes
    machine: str  # what the times depend on, as one line
    quiet: bool  # whether the machine seems to have done nothing else
    rounds: list[list[DecodeResult]]  # results of each lane in order of the rounds
    problem: str = ""  # why it could not be run to its end


def run_race(model: Engine, query: str, lanes: Lanes, progress: Progress) -> Race:
    """Return a race whose runs wait in the queue; `progress` is called before each."""
    total = len(lanes) * timing.REPEATS
    shared = [host.load_average() > BUSY * usable_cores()]

    def decode(search: DecodeSettings, number: int) -> DecodeResult:
        share = max(0, number - 1) / total
        progress(share, f"Run {number} of {total}" if number else "Warming up: one run of each, not counted")
        result = queued_engine.decode_query(model, query, search, waiting=partial(progress, share))
        shared.append(number > 0 and is_shared())
        if result.status != "ok":
            raise ValueError(result.message)
        return result

    rounds: list[list[DecodeResult]] = []
    problem = ""
    try:
        rounds = timing.alternate_runs(lanes, decode)
    except ValueError as error:
        problem = str(error)
    return Race(model.name, query, lanes, describe_machine(model), not any(shared), rounds, problem)


def is_shared() -> bool:
    """Return whether other visitors are in the queue, or a batch job is running."""
    return len(queued_engine.shared_queue()) > 0 or bool(job_queue.running_job())


def describe_machine(model: Engine) -> str:
    """Return what timings depend on: machine, model and time of day, as one line."""
    when = datetime.now().astimezone().strftime("%d %b %Y, %H:%M %Z")
    cores = usable_cores()
    device = f"{model.device}, {model.dtype}, {model.runtime}, {model.threads} thread{'s' * (model.threads > 1)}"
    machine = f"{host.processor_name()}, {cores} core{'s' * (cores > 1)}"
    return f"Wall clock on the server: {machine} · model {model.name} on {device} · {when}"


def show_race_page(model: Engine, query: str) -> None:
    """Draw the race, which starts by itself, and its settings; any click stops it."""
    if refusal := model.prepare(query).refusal:
        st.error(escaping.plain_text(refusal.message))
        return
    st.caption(
        "Drafts are pieces copied from the query, several of which the model checks in one pass. A pass is one call of "
        "the network; without drafts it writes one token, such as an atom or a bond."
    )
    results, state = st.container(), st.session_state
    lanes = choose_lanes(queued_engine.usable_drafters(model.name))
    if "speed_race" not in state:
        state.update({"speed_race": None, START_FLAG: True})
    running = state.pop(START_FLAG, False)
    with results:
        # Two keys, one position: a click on Stop when the run has just ended must not start another race.
        if running:
            st.button("Stop", key="speed_race_stop", shortcut="Ctrl+Enter", width=240)
            with st.empty():
                state.speed_race = run_race(model, query, lanes, st.progress(0.0).progress)
            st.rerun()
        options: Any = {"type": "primary", "shortcut": "Ctrl+Enter", "width": 240}
        st.button("Start the race", key="speed_race_start", on_click=_start_race, **options)
        if race := state.speed_race:
            if (race.model, race.query, race.lanes) != (model.name, query, lanes):
                st.info("These results are of an earlier query or choice; start again for the present one.")
            show_race(race)


def show_race(race: Race) -> None:
    """Show conclusion, replay and table of a race."""
    if race.problem:
        st.error(f"These settings cannot be raced: {escaping.plain_text(race.problem)}")
        return
    names = [timing.setting_name(lane) for lane in race.lanes]
    lanes = timing.median_lanes(race.rounds, names)
    recorded = lanes if race.quiet else [lane.without_times() for lane in lanes]
    conclusion = timing.race_conclusion(race.rounds, timed=race.quiet)
    st.markdown(f"##### {conclusion[:1].upper()}{conclusion[1:]}")
    show_replay(recorded, race.lanes, race_id=f"{id(race)}-{race.machine}")
    show_downloads(race.model, recorded, race.rounds[0][0], conclusion)
    if not race.quiet:
        st.warning(
            "The server was busy during the race, so times are left out; drafts are planned by the times of passes, so "
            "their number may vary, too."
        )
    show_table(race, names)
    st.caption(race.machine)


COLUMNS = {
    "name": st.column_config.TextColumn("setting", width="medium"),
    "median_ms": st.column_config.NumberColumn(
        "time, ms",
        format="%.2f",
        help="Wall clock from the start of decoding to the last pass, everything included; the median of the runs",
    ),
    "q1_ms": st.column_config.NumberColumn("first quartile", format="%.2f"),
    "q3_ms": st.column_config.NumberColumn("third quartile", format="%.2f"),
    "passes": st.column_config.NumberColumn(
        format="%d",
        help="Calls of the network for one answer. Without drafts each writes one token, such as an atom or a bond",
    ),
    "tokens_per_pass": st.column_config.NumberColumn(
        "tokens per pass", format="%.2f", help="Tokens written by a pass on average; 1 without drafts"
    ),
    "acceptance_rate": st.column_config.NumberColumn(
        "acceptance rate", format="percent", help="Share of the answer's tokens that were drafted and found right"
    ),
    "nodes_per_pass": st.column_config.NumberColumn(
        "nodes per pass", format="%.1f", help="Tokens computed by a pass on average, rejected drafts included"
    ),
}


def show_table(race: Race, names: Sequence[str]) -> None:
    """Show the lanes as a table, with times if the machine was quiet."""
    rows = timing.race_statistics(race.rounds, names)
    for row, lane in zip(rows, race.lanes, strict=True):
        if not lane.exact:  # a trace of SBS does not count its tokens
            row |= {"tokens_per_pass": None, "acceptance_rate": None}
    shown = [name for name in COLUMNS if race.quiet or not name.endswith("_ms")]
    st.dataframe(
        rows, hide_index=True, column_order=shown, column_config=COLUMNS, placeholder="–", alt="Results of the race"
    )


CAPTION = "These are recorded runs, made one after the other; of each setting the one with the median time is replayed."
BUSY_CAPTION = "These are recorded runs, made one after the other. Passes are drawn equally long; drafts cost a little."
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
    tokens = [(token.text, "own" if token.origin == "own" else "copied") for token in lane.tokens]
    return {
        "name": lane.name,
        "note": SPREAD_EVENLY if not settings.exact else FIRST_OF_BEAM if settings.decoder == "beam" else "",
        "ms": lane.milliseconds,
        "ends": lane.ends,
        "tokens": [(text, "end" if text == END else kind) for text, kind in tokens],
        "by": [token.pass_number - 1 for token in lane.tokens],
    }


def show_downloads(model: str, lanes: Sequence[Lane], result: DecodeResult, conclusion: str) -> None:
    """Offer the replay as an animated picture, in the colours of the page."""

    def write(kind: str) -> bytes:
        drawn = picture.build_picture(
            lanes,
            title=f"{model}: standard and speculative decoding",
            query=result.smiles,
            answer=result.hypotheses[0].canonical,
            conclusion=conclusion,
            dark=theme.is_dark(),
        )
        return picture.replay_bytes(drawn, kind)

    with st.popover("Save replay", type="tertiary"):
        for kind in ("svg", "webp", "gif"):
            st.download_button(
                kind.upper(), partial(write, kind), f"replay.{kind}", key=f"speed_replay_{kind}", on_click="ignore"
            )
        st.caption("An animated picture of six seconds: SVG for web pages, WebP or GIF for slides.")
