"""Work in processes of its own: whatever becomes of one piece, the next is done, and nothing is left over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest

from chemspec.system import forked
from chemspec.system.forked import Forked


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Forked]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    one = Forked("forked_work")
    yield one
    one.close()


@pytest.mark.parametrize("text", ["", "CCO", "two\nlines", "Å\0", "x" * 1_000_000, "a\ud800"])
def test_a_piece_gets_its_text_and_gives_its_answer_whatever_it_prints(server: Forked, text: str) -> None:
    assert server.ask("noisy", "") == "x"
    assert server.ask("echo", text) == text.replace("\ud800", "?")  # half a character is no reason to die


@pytest.mark.skipif(not hasattr(os, "nice"), reason="this system has no niceness")
def test_others_compute_first(server: Forked) -> None:
    assert server.ask("niceness", "") == str(min(19, os.nice(0) + forked.NICE))


@pytest.mark.parametrize("kind", ["endless", "swollen", "wrong", "dead"])
def test_a_piece_that_ends_badly_harms_no_other(server: Forked, kind: str) -> None:
    before = server.ask("server", "")
    began = time.process_time()
    assert server.ask(kind, "x") is None
    assert server.ask("server", "") == before
    assert time.process_time() - began < 0.5  # of computing here


def test_a_piece_that_waits_is_ended_by_the_clock(server: Forked, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask("echo", "x") == "x"
    monkeypatch.setattr(forked, "WALL_SECONDS", 0.2)
    assert server.ask("asleep", "") is None
    monkeypatch.undo()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    assert server.ask("echo", "x") == "x"


def test_a_server_that_was_killed_is_followed_by_another(server: Forked) -> None:
    first = server.ask("server", "")
    os.kill(int(first or 0), signal.SIGKILL)
    answers = [server.ask("server", "") for _ in range(2)]
    assert answers[1] not in (None, first)  # the first of them may have been lost with it


def test_threads_get_their_answers(server: Forked) -> None:
    texts = [f"{number}" * number for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda text: server.ask("echo", text), texts)) == texts


def test_an_answer_that_nobody_waited_for_is_not_the_next_one(server: Forked) -> None:
    assert server.ask("echo", "x") == "x"
    # As Ctrl-C is: to the thread that handles signals. Tests started in the background inherit that it is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    Timer(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            server.ask("asleep", "")
    finally:
        signal.signal(signal.SIGINT, before)
    assert server.ask("echo", "y") == "y"


def test_a_fork_of_the_parent_starts_its_own(server: Forked) -> None:
    first = server.ask("server", "")
    child = os.fork()
    if not child:
        right = server.ask("server", "") not in (None, first)
        server.close()
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.ask("server", "") == first


def test_a_server_ends_with_its_parent(server: Forked) -> None:
    program = (
        "import os, signal\nfrom chemspec.system.forked import Forked\n"
        "print(Forked('forked_work').ask('server', ''), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and ended(int(done.stdout))


def ended(process: int) -> bool:
    """Wait for a process that is no child of this one."""
    for _ in range(600):
        try:
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
