"""A model with nothing to compress: the screen says so and promises nothing, and chat goes on."""

from dataclasses import replace

import pytest

from studio.ui.message import Reply
from studio.ui.window import OWN_CACHE, MainWindow
from tests.studio import synthetic
from tests.studio.ui.fake_engine import STARTER, FakeEngine
from veloxquant_mlx.steps import Plan, SlotPlan

WORDS = "keep a recurrent state, not keys and values"
PLAN = Plan(
    tuple(SlotPlan(slot, False, "keeps a recurrent state, not keys and values", WORDS) for slot in range(24))
)


@pytest.fixture
def recurrent(loaded: MainWindow, engine: FakeEngine) -> MainWindow:
    engine.play_loaded(replace(STARTER, name="mamba-130m", slots=24, kv_slots=0, heads=None))
    engine.plan_changed.emit(PLAN)
    return loaded


def test_the_middle_says_what_will_happen(recurrent: MainWindow) -> None:
    lead = recurrent.chat.empty.lead.text()
    assert lead == f"None of 24 slots compressed: they {WORDS}. The model chats without compression."
    assert recurrent.chat.empty.title.text() == "mamba-130m is ready"


def test_nothing_is_predicted(recurrent: MainWindow) -> None:
    figures = recurrent.cache.figures
    assert "nothing is predicted" in figures.basis.text()
    assert figures.plan.text() == PLAN.words


def test_the_charts_do_not_wait_for_codes(recurrent: MainWindow, engine: FakeEngine) -> None:
    said: list[str] = []
    recurrent.charts.panel.set_waiting = said.append
    recurrent.chat.prompt.set_text("hello")
    recurrent.chat.prompt.submit()
    engine.started.emit("reply")
    assert said == [PLAN.sentence.rstrip(".")]


def test_a_reply_does_not_claim_a_method_it_did_not_go_through(
    recurrent: MainWindow, engine: FakeEngine
) -> None:
    for plan, through in ((PLAN, OWN_CACHE), (synthetic.plan(24), "Fake Small")):
        engine.plan_changed.emit(plan)
        recurrent.chat.prompt.set_text("hello")
        recurrent.chat.prompt.submit()
        engine.started.emit("reply")
        assert engine.calls[-1][1].cache == through
        engine.play_finished("Hi.")
        shown = recurrent.chat.shown()[-1]
        assert isinstance(shown, Reply) and f"through {through}." in shown.figures()
