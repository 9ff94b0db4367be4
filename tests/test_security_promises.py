"""What SECURITY.md promises, and says of login and supply, has tests; its numbers are those of the program."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache

import pytest
from paths import ROOT, TESTS

SECTIONS = ("What is promised", "A login", "Supply")
# The tests of a sentence, by how it begins; of one that only warns, none.
PROMISES: dict[str, tuple[str, ...]] = {
    "A query, a file, a trace or a link cannot run code": (
        "test_hostile_structures.py::test_no_structure_ends_or_holds_up_a_process",
        "campaigns/test_fuzz.py::test_a_few_cases_of_every_way",
        "campaigns/test_fuzz.py::test_fixed_cases",
        "ui/test_jobs.py::test_no_path_gets_in_by_an_id",
        "ui/test_page_plan.py::test_no_path_gets_in_by_the_id_of_a_search",
        "ui/test_page_batch.py::test_a_link_to_no_job_is_told",
        "ui/test_trace_view.py::test_a_hostile_file_is_refused_with_a_message_of_ours",
        "importers/test_families.py::test_code_in_a_pickle_is_refused_and_not_run",
    ),
    "Limits of size are in the messages": (
        "ui/test_jobs.py::test_a_file_beyond_a_limit_is_refused",
        "chem/test_parsing.py::test_drawn_graphs_are_refused_by_their_rings",
        "engine/test_engine.py::test_refusals_say_what_is_wrong_and_where",
        "service/test_service_limits.py::test_a_query_may_be_long_and_a_request_have_many_up_to_a_limit",
    ),
    "Before RDKit gets a structure": (
        "chem/test_parsing.py::test_labels_of_a_smiles_are_two_a_ring",
        "chem/test_parsing.py::test_drawn_graphs_are_refused_by_their_rings",
        "chem/test_parsing.py::test_what_takes_rdkit_long_is_refused_by_a_trial",
        "system/test_forked.py::test_a_piece_that_ends_badly_harms_no_other",
        "test_architecture.py::test_only_one_module_hands_texts_to_rdkit",
    ),
    "Files of structures, workbooks and Parquet": (
        "ui/test_jobs.py::test_a_file_that_unfolds_to_gigabytes_takes_no_memory_here",
        "ui/test_jobs.py::test_files_of_structures_are_read_by_a_process_of_their_own",
        "ui/test_jobs.py::test_a_reader_that_dies_or_hangs_is_told",
        "ui/test_buyable.py::test_price_lists_are_read_by_a_process_of_their_own",
        "ui/test_buyable.py::test_a_stock_list_is_read_by_a_process_of_its_own_and_leaves_nothing",
    ),
    "Shapes for the 3-D view": ("ui/test_page_vendor.py::test_what_takes_too_long_is_ended_and_told",),
    "A row of a file that ends the process": (
        "io/test_crashes.py::test_a_file_with_rows_that_kill_is_finished",
        "ui/test_jobs.py::test_a_row_that_crashes_the_prediction_fails_and_the_job_is_done",
    ),
    "A model folder is data": (
        "model/test_checkpoint.py::test_weights_that_are_no_safetensors_are_named",
        "model/test_checkpoint.py::test_saving_twice_changes_nothing_and_leaves_no_other_files",
    ),
    "Sizes are compared with the tensors": (
        "model/test_untrusted.py::test_a_config_that_lies_is_refused_before_anything_is_allocated",
        "model/test_untrusted.py::test_weights_whose_scores_are_no_numbers_are_refused",
    ),
    "Scores that are no numbers fail the query": (
        "model/test_untrusted.py::test_scores_that_are_no_numbers_never_leave_as_an_answer",
        "model/test_untrusted.py::test_json_holds_numbers_only",
    ),
    "Of checkpoints of other programs": (
        "importers/test_large_pickles.py::test_what_would_hang_or_swell_is_refused",
        "importers/test_large_pickles.py::test_a_pickle_of_more_than_the_limit_is_refused",
        "importers/test_families.py::test_every_other_name_is_refused",
    ),
    "Compiled code is built from the source": (
        "system/test_compiled.py::test_a_folder_that_others_may_write_to_is_not_used",
        "system/test_compiled.py::test_a_library_that_is_not_what_was_built_is_built_again",
    ),
    "`chemspec app` and `chemspec serve` listen": (
        "ui/test_app_door.py::test_who_kills_the_app_ends_its_server",
        "service/test_service_door.py::test_it_listens_on_this_machine_only",
    ),
    "They ask no other machine for anything": (
        "ui/test_app_door.py::test_nothing_is_asked_of_another_machine",
        "service/test_service_door.py::test_the_service_asks_no_other_machine",
    ),
    "(Tests refuse and note every connection": (
        "ui/test_app_door.py::test_nothing_is_asked_of_another_machine",
        "browser/test_shell.py::test_a_page_opens_by_its_address",
    ),
    "Pages of other sites cannot ask them": (
        "ui/test_app_door.py::test_only_pages_of_the_app_itself_open_its_websocket",
        "ui/test_app_door.py::test_pages_are_sent_under_the_names_of_the_server_only",
        "ui/test_app_door.py::test_files_are_sent_and_taken_under_the_names_of_the_server_only",
        "service/test_service_door.py::test_a_request_of_another_site_is_refused",
        "system/test_host_check.py::test_what_a_page_of_another_site_sends_is_refused",
    ),
    "Further names are given by": ("ui/test_app_door.py::test_a_proxy_may_change_the_host_or_keep_it",),
    "`streamlit run app.py` checks": (
        "ui/test_app_door.py::test_what_streamlit_starts_itself_checks_the_websocket_only",
    ),
    "Before a key is looked at": (
        "service/test_service_door.py::test_headers_without_an_end_are_refused_before_they_take_memory",
        "service/test_service_door.py::test_headers_that_take_their_time_are_ended",
        "service/test_service_door.py::test_a_body_that_takes_its_time_is_ended",
        "service/test_service_limits.py::test_a_body_of_ten_megabytes_is_refused_and_the_client_hears_it",
        "service/test_service_door.py::test_slow_connections_keep_nobody_out",
    ),
    "The app has the limits of headers": (
        "ui/test_app_door.py::test_headers_without_an_end_are_refused",
        "ui/test_app_door.py::test_connections_without_a_request_give_way_and_a_websocket_does_not",
    ),
    "Its bodies are files": (
        "ui/test_launch.py::test_the_settings_keep_errors_and_names_on_this_machine",
        "ui/test_security.py::test_one_visit_keeps_so_many_files_and_no_more",
        "ui/test_security.py::test_nothing_is_uploaded_before_a_login",
    ),
    "A WebSocket, once open": (
        "ui/test_app_door.py::test_connections_without_a_request_give_way_and_a_websocket_does_not",
    ),
    "Ray's proxy": (),
    "Pages of `chemspec app` carry": (
        "ui/test_security.py::test_every_response_has_the_headers_and_keeps_its_own",
        "ui/test_app_door.py::test_pages_are_sent_under_the_names_of_the_server_only",
        "browser/test_shell.py::test_a_page_reaches_no_other_host_whatever_runs_in_it",
    ),
    "Scripts in the page itself": ("ui/test_security.py::test_every_response_has_the_headers_and_keeps_its_own",),
    "(Tested in Chromium": ("ui/test_app_door.py::test_what_streamlit_starts_itself_checks_the_websocket_only",),
    "What a link, a file or a visitor's text says": (
        "ui/test_security.py::test_a_link_puts_no_link_into_what_a_page_says",
        "ui/test_page_predict.py::test_nothing_a_visitor_types_becomes_markup",
        "ui/test_page_predict.py::test_the_text_of_a_picture_stays_in_its_attribute",
        "ui/test_page_batch.py::test_hostile_cells_reach_the_page_as_text_only",
        "ui/test_collections.py::test_a_name_of_a_collection_is_text",
        "ui/test_precedents.py::test_what_an_index_says_cannot_become_html",
        "browser/test_shell.py::test_a_hostile_query_is_text_wherever_it_is_shown",
    ),
    "Of one visitor at most": (
        "ui/test_turns.py::test_too_many_questions_are_refused_at_once_and_others_go_on",
        "service/test_service_limits.py::test_one_client_cannot_take_the_queue_of_the_others",
    ),
    "What is beyond is refused": (
        "ui/test_turns.py::test_too_many_questions_are_refused_at_once_and_others_go_on",
        "service/test_service_limits.py::test_a_full_queue_says_when_to_come_back_and_then_goes_on",
    ),
    "Turns go round": (
        "ui/test_turns.py::test_who_has_many_tabs_gets_one_turn_before_others_who_wait_have_had_one",
        "service/test_service_limits.py::test_one_client_cannot_take_the_queue_of_the_others",
    ),
    "Logs hold no query": (
        "service/test_service_limits.py::test_the_log_has_a_line_a_request_and_never_a_query",
        "service/test_service_limits.py::test_the_log_names_clients_by_nothing_that_is_theirs",
        "ui/test_security.py::test_the_log_tells_kind_and_place_of_an_error_and_not_what_was_asked",
        "ui/test_app_door.py::test_headers_without_an_end_are_refused",
    ),
    "`serve --shadow` and `app --shadow` are off": (
        "service/test_service_shadow.py::test_without_the_option_nothing_is_decoded_again",
        "service/test_service_shadow.py::test_different_answers_are_counted_logged_without_the_query_and_stored",
        "ui/test_shadow_line.py::test_it_is_off_unless_a_fraction_is_set",
        "io/test_shadow.py::test_a_different_answer_is_stored_with_all_that_repeats_it",
        "io/test_shadow.py::test_the_file_of_differences_stops_growing_over_restarts",
    ),
    "Equal answers leave numbers only": (
        "io/test_shadow.py::test_equal_answers_are_counted_and_no_molecule_is_stored",
    ),
    "An unforeseen error leaves": (
        "ui/test_security.py::test_the_log_tells_kind_and_place_of_an_error_and_not_what_was_asked",
        "service/test_service_limits.py::test_a_fault_of_ours_is_told_without_what_was_asked",
    ),
    "Connections and requests that are refused": (
        "service/test_service_door.py::test_what_is_refused_is_logged_without_who_asked",
    ),
    "Links to jobs and to searches": ("ui/test_security.py::test_links_carry_128_random_bits",),
    "Without its link a visitor finds": (
        "ui/test_jobs.py::test_ids_cannot_be_guessed",
        "ui/test_private_files.py::test_everything_below_an_open_home_is_private",
        "ui/test_private_files.py::test_a_home_that_is_not_there_is_made_private",
        "ui/test_private_files.py::test_the_command_that_starts_the_app_tells_of_an_open_home",
    ),
    "The list of recent queries": ("ui/test_history.py::test_queries_are_kept_for_the_visit_and_not_on_disk",),
    "Cells that a spreadsheet": (
        "ui/test_jobs.py::test_no_cell_begins_like_a_formula",
        "ui/test_jobs.py::test_formulas_are_made_harmless",
        "ui/test_page_predict.py::test_a_table_goes_into_files",
        "ui/test_collections.py::test_a_table_has_the_reaction_and_no_formula",
    ),
    # A login
    "The app can ask visitors who they are": ("ui/test_security.py::test_without_the_setting_nobody_is_asked",),
    "Install it with": (
        "system/test_lock.py::test_the_readme_and_ci_install_by_the_lock",
        "ui/test_page_vendor.py::test_the_wheel_carries_it",
        "ui/test_security.py::test_the_secrets_of_a_login_lie_where_the_app_looks_and_git_does_not",
    ),
    "An address counts if": (
        "ui/test_security.py::test_who_has_logged_in_enters_if_invited",
        "ui/test_security.py::test_an_address_and_none_of_its_neighbours_may_enter",
        "ui/test_security.py::test_an_address_counts_where_the_provider_has_verified_it",
    ),
    "Some never say so": ("ui/test_security.py::test_an_address_counts_where_the_provider_has_verified_it",),
    "Behind a proxy start": ("ui/test_app_door.py::test_a_proxy_may_change_the_host_or_keep_it",),
    "To others pages then show": (
        "ui/test_security.py::test_who_has_not_logged_in_sees_a_button_and_nothing_else",
        "ui/test_security.py::test_a_login_that_is_not_set_up_lets_nobody_in",
        "ui/test_security.py::test_nothing_is_uploaded_before_a_login",
    ),
    "What the pages fetch": ("ui/test_security.py::test_the_address_of_a_download_is_a_hash_of_it",),
    "History, jobs and links": ("ui/test_security.py::test_who_has_logged_in_enters_if_invited",),
    # Supply
    "`constraints.txt`, by which": (
        "system/test_lock.py::test_the_lock_pins_all_that_the_extras_name_and_what_they_need",
        "system/test_lock.py::test_the_readme_and_ci_install_by_the_lock",
    ),
}


def promised() -> list[str]:
    """The sentences of the sections, each in one line."""
    whole = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    texts = [whole.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for title in SECTIONS]
    assert all(texts)
    text = re.sub(r"^```.*?^```$", "", "\n\n".join(texts), flags=re.MULTILINE | re.DOTALL)
    points = [" ".join(point.split()) for point in re.split(r"^- |\n\n", text, flags=re.MULTILINE) if point.strip()]
    return [sentence for point in points for sentence in re.split(r"(?<=[.)])\s+(?=[A-Z(`])", point)]


@cache
def names_in(file: str) -> set[str]:
    """The names of the tests of a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_sentence_has_tests_that_are_there() -> None:
    sentences = promised()
    assert len(sentences) > 30
    beginnings = [[begin for begin in PROMISES if sentence.startswith(begin)] for sentence in sentences]
    assert [sentence for sentence, found in zip(sentences, beginnings, strict=True) if len(found) != 1] == []
    assert set(PROMISES) - {found for one in beginnings for found in one} == set(), "no such sentence any more"
    named = [one.split("::") for tests in PROMISES.values() for one in tests]
    assert [f"{file}::{name}" for file, name in named if name not in names_in(file)] == []


def test_its_numbers_are_those_of_the_program() -> None:
    pytest.importorskip("streamlit")
    pytest.importorskip("fastapi")
    from chemspec.chem import conformer, parsing, trial
    from chemspec.service import guard
    from chemspec.service.limits import Limits
    from chemspec.system import connections, fair_queue, forked
    from chemspec.ui.launch import middleware

    whole, mega = " ".join(promised()), 1_000_000
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    headers = f"headers are bounded in size ({connections.HEADER_BYTES // 1024} kB) and time"
    limits = Limits()
    for part in (
        f"more than {parsing.MOST_RINGS}, or many that share their atoms",
        f"what has more than {parsing.FEW_RINGS} is read by another process",
        f"may take {trial.SECONDS:g} s of computing and {forked.MEMORY_BYTES // mega} MB",
        f"for {conformer.MOST_SECONDS:g} s at most",
        f"{headers} ({connections.HEADER_SECONDS:g} s)",
        f"bodies of the service in size and time ({limits.body // mega} MB, {guard.BODY_TIMEOUT:g} s)",
        f"at most {settings['server']['maxUploadSize']} MB, of one visit at most {middleware.VISIT_FILES}, "
        f"of all {middleware.ALL_BYTES // mega} MB",
        f"at most {fair_queue.MAX_OF_ONE_VISITOR} questions wait, of all together {fair_queue.MAX_WAITING};",
    ):
        assert part in whole
    assert limits.per_client == limits.queue // 2  # "half of its queue"
