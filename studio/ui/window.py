"""The main window: composition, wiring and the one refresh timer. Panels do not know each other."""

from typing import Any

from PySide6.QtCore import QEvent, QSize, QTimer
from PySide6.QtGui import QCloseEvent, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QMainWindow

from studio.core.flush import waiting_words
from studio.core.predict import predicted_curve
from studio.core.store import Store
from studio.core.talk import Talk
from studio.ui import layout, words
from studio.ui.actions import Actions
from studio.ui.applying import Applying
from studio.ui.background import Background
from studio.ui.below_prompt import BelowPrompt
from studio.ui.cache_panel import CachePanel, shapes_of
from studio.ui.charts_host import ChartsHost
from studio.ui.chat import Chat
from studio.ui.chats_panel import ChatsPanel
from studio.ui.conversations import Conversations
from studio.ui.fidelity_wiring import FidelityWiring
from studio.ui.fits import Fits
from studio.ui.flow import REREAD, ReplyFlow
from studio.ui.link import EngineLike
from studio.ui.links import ask_to_open
from studio.ui.manners import Manners
from studio.ui.models_panel import GET_STARTER, ModelsPanel
from studio.ui.opening import Opening
from studio.ui.pace import SHORTEST_MS, SOON_MS, Pace, StillCursors, lay_out, share_beside
from studio.ui.papers import Papers
from studio.ui.places import Places
from studio.ui.settings_wiring import SettingsWiring
from studio.ui.side_wiring import SideWiring
from studio.ui.statusbar import StatusBar
from studio.ui.topbar import TopBar
from studio.ui.what_if_wiring import WhatIfWiring
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.steps import FinishedStep, Plan

TICKS_PER_WORDS = 4
"""Figures in words are read slower than the words of the reply."""
OWN_CACHE = "the model's own cache"
"""What a reply comes through where a method finds no slot to compress."""


class MainWindow(QMainWindow):
    """Give it an engine whose signals arrive on this thread. Show it; everything else follows."""

    def __init__(self, engine: EngineLike, store: Store | None = None) -> None:
        """``store`` None opens the one in the data folder."""
        super().__init__()
        self.engine = engine
        self.setWindowTitle("VeloxQuant Studio")
        self._info: Any = None
        self.weights: int | None = None
        """Bytes it takes in memory before any cache (measured)."""
        self._context: int | None = None
        self._plan: Plan | None = None
        self._ticks = 0
        self._pace, self._cursors = Pace(), StillCursors()

        self.top = TopBar()
        self.models, self.chats, self.chat, self.cache = ModelsPanel(), ChatsPanel(), Chat(), CachePanel()
        self.below_prompt = BelowPrompt()
        self.chat.below.addWidget(self.below_prompt)
        self.charts = ChartsHost()
        self.status = StatusBar()
        self.flow = ReplyFlow(self.chat, self.charts)
        self.applying = Applying(engine)
        self.talk = Talk(store or Store())
        self.fits = Fits(engine, self.models, lambda: self.talk.settings)
        self.opening = Opening(
            self, engine, self.applying, self.models, self.chat, self.fits, self.talk.store
        )
        self.conversations = Conversations(self.chat, self.chats, self.flow, engine, self.talk)
        self.fidelity = FidelityWiring(engine, self.conversations, self.charts, self.status)
        self.settings = SettingsWiring(self, engine, self.talk, self.fits, self.fidelity)
        self.papers = Papers(self)
        self.manners = Manners(
            self, engine, self.conversations, self.cache.go_to, lambda: self._on_cancelled("chat")
        )
        self.what_if = WhatIfWiring(engine, self.cache)
        self.side = SideWiring(engine, self.cache, self.talk)
        self.background = Background(self, engine, lambda: self.talk.settings)
        self.timer = QTimer(self)
        self.timer.timeout.connect(self.tick)
        self._compose()
        self.places = Places(self, self.talk.store)
        self.places.restore()
        self.actions_ = Actions(self)
        self.top.set_menus(self.actions_.groups())
        self._wire_panels()
        self._wire_engine()
        self._refresh_words()
        self._ready()

    @property
    def info(self) -> Any:
        """ModelInfo of the loaded model, None without one."""
        return self._info

    def sizeHint(self) -> QSize:
        """The size the layout was drawn for."""
        return QSize(layout.WIDTH, layout.HEIGHT)

    # Composition -------------------------------------------------------------------------------

    def _compose(self) -> None:
        above = layout.columns(layout.stack(self.models, self.chats), self.chat, self.cache)
        self.setCentralWidget(layout.page(self.top, layout.rows(above, self.charts), self.status))
        self.setMinimumSize(QSize(900, 600))
        self.resize(layout.WIDTH, layout.HEIGHT)

    def _wire_panels(self) -> None:
        self.opening.begun.connect(self._ready)
        self.settings.used.connect(self._refresh_words)
        self.cache.apply_requested.connect(self.configure)
        self.cache.cancel_requested.connect(self.applying.cancel)
        self.cache.predicted.connect(self._show_ghost)
        self.cache.renamed.connect(self._name_cache)
        self.applying.changed.connect(self._on_standing)
        self.chat.stop_requested.connect(self.engine.stop)
        self.chat.link_clicked.connect(lambda address: ask_to_open(self, address))
        self.conversations.left.connect(self.applying.forget)
        self.conversations.left.connect(self.what_if.forget)
        self.conversations.begun.connect(self._begin)
        self.conversations.changed.connect(self._ready)
        self.conversations.shown.connect(self._on_shown)
        self.below_prompt.settings.sampling_changed.connect(self.conversations.set_sampling)
        self.below_prompt.settings.system_changed.connect(self.conversations.set_system)
        for changed in (
            self.below_prompt.settings.sampling_changed,
            self.below_prompt.settings.system_changed,
        ):
            changed.connect(lambda _: self.below_prompt.show_words(self.talk.system, self.talk.sampling))
        self.top.model_chip.clicked.connect(self.models.list.setFocus)
        self.top.cache_chip.clicked.connect(self.cache.method_box.setFocus)
        self.top.new_button.clicked.connect(self.conversations.new)
        self.top.export_button.clicked.connect(self.papers.export)
        self.charts.saved.connect(lambda path: self.chat.notice.show_note(f"View saved to {path}"))
        self.charts.save_failed.connect(lambda sentence: self.chat.notice.show_error(sentence, ""))

    def _wire_engine(self) -> None:
        engine = self.engine
        engine.methods_ready.connect(self._on_methods)
        engine.models_found.connect(self._on_models)
        engine.progress.connect(self._on_progress)
        engine.loaded.connect(self._on_loaded)
        engine.unloaded.connect(self._on_unloaded)
        engine.plan_changed.connect(self._on_plan)
        engine.configured.connect(self._on_configured)
        engine.started.connect(self._on_started)
        engine.finished.connect(self._on_finished)
        engine.failed.connect(self._on_failed)
        engine.exported.connect(lambda path: self.chat.notice.show_note(f"Report saved to {path}"))
        engine.cancelled.connect(self._on_cancelled)
        engine.state_changed.connect(self._on_state)
        engine.noted.connect(lambda sentence: self.chat.notice.show_note(sentence))
        engine.saving.connect(self.status.set_saving)

    def changeEvent(self, event: QEvent) -> None:
        """The system changed its colours: the charts paint for themselves. Others may have written chats."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            self.conversations.look_elsewhere()
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "charts"):
            QTimer.singleShot(0, self.charts, self.charts.follow_palette)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Something is held over the window: an event filter would see each of its paintings too."""
        self.opening.drop(event)

    def dropEvent(self, event: QDropEvent) -> None:
        """Something is let go on the window."""
        self.opening.drop(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """The engine ends before the window does."""
        self._watch(False)
        self.places.keep()
        self.opening.downloads.close()
        self.conversations.remove_deleted()
        self.engine.close(lambda: self.chat.notice.show_note(words.CLOSING))
        self.background.close()
        self.conversations.close()
        super().closeEvent(event)

    def start(self) -> None:
        """Start the engine and look for models. Everything is connected by now."""
        self.engine.start()
        self.settings.start()
        self.fidelity.start()
        self.opening.look()

    # Commands ----------------------------------------------------------------------------------

    def configure(self, config: KVCacheConfig) -> None:
        """Use a configuration: at once while nothing runs, otherwise after the reply."""
        self.applying.ask(config)

    def send(self, text: str) -> None:
        """Say something to the model."""
        self.conversations.send(text)

    def regenerate(self) -> None:
        """Answer the last message again, through the cache as it is set now."""
        self.conversations.regenerate()

    def new_chat(self) -> None:
        """Start over; the chat stays in the list."""
        self.conversations.new()

    def export_chat(self) -> None:
        """Ask where to, then write the chat on the page."""
        if self.talk.row is not None:
            self.conversations.export(self.talk.row.id)

    def _on_shown(self) -> None:
        self.cache.set_snapshot(None)
        self.below_prompt.show_values(self.talk.system, self.talk.sampling)
        self._refresh_words()
        self._ready()

    def stop(self) -> None:
        """Stop a reply, also one the engine has not told of yet, or cancel loading."""
        if self.engine.busy or self.flow.active:
            self.engine.stop()

    # The engine's answers ----------------------------------------------------------------------

    def _on_methods(self, methods: dict[str, type[KVCacheConfig]]) -> None:
        self.cache.set_methods(methods)
        config = self.cache.config()
        if config is not None:
            self.configure(config)
        self._ready()

    def _on_models(self, models: list[Any]) -> None:
        self.models.set_models(models)
        self._ready()

    def _on_progress(self, fraction: float | None, sentence: str) -> None:
        self.models.set_progress(fraction, sentence)
        self.status.set_state(sentence)
        if self.chat.is_empty():
            self.chat.empty.show_busy(sentence)

    def _on_loaded(self, loaded: Any) -> None:
        self._info, self._context, self.weights = loaded.info, loaded.context, loaded.active_memory
        self._pace.share = self.charts.pace.share = share_beside(loaded.compute)
        self.models.set_loaded(loaded.info)
        self.flow.forget()
        self.cache.set_snapshot(None)
        self.conversations.model = loaded.info.name
        self.cache.set_model(shapes_of(loaded.info), loaded.context, str(loaded.info.path))
        self._on_plan(loaded.plan)
        self.below_prompt.settings.set_manner(loaded.manner)
        self.top.set_model(loaded.info.name)
        self.status.set_model(f"{loaded.info.name}, {loaded.compute}")
        self._refresh_words()
        self._ready()
        self.chat.prompt.setFocus()

    def _on_unloaded(self) -> None:
        self._info = self._context = self._plan = None
        self.models.set_loaded(None)
        self.flow.forget()
        self.charts.set_plan(None)
        self.cache.set_snapshot(None)
        self.cache.set_plan(None)
        self.cache.set_model(None, None)
        self.below_prompt.settings.set_manner("")
        self.top.set_model(None)
        self.status.set_model(None)
        self._refresh_words()
        self._ready()

    def _on_plan(self, plan: Plan) -> None:
        self.cache.set_plan(plan)
        self.charts.set_plan(plan)
        self._plan = plan
        self._name_cache()
        self._ready()

    def _on_configured(self, config: KVCacheConfig) -> None:
        self.tick()
        self.flow.end_reread(whole=True)
        self.cache.notice.clear()
        self.fidelity.set_in_use(config)
        self._name_cache()
        self._refresh_words()
        self._ready()

    def _name_cache(self) -> None:
        """The setting in use, and what replies are said to come through."""
        config = self.applying.standing.in_use
        title = self.cache.title(config) if config is not None else ""
        self.top.set_cache(title)
        self.status.set_cache(title)
        if self._plan is not None and self._plan.idle:
            self.conversations.cache = OWN_CACHE
        elif title:
            self.conversations.cache = title

    def _show_ghost(self, config: KVCacheConfig | None) -> None:
        """What the controls stand for, over what is."""
        shapes, snapshot = shapes_of(self._info), self.flow.snapshot
        if config is None or shapes is None or snapshot is None:
            self.charts.set_ghost(None)
        else:
            self.charts.set_ghost(predicted_curve(config, shapes, snapshot.tokens))

    def _on_standing(self) -> None:
        self.cache.set_standing(self.applying.standing)
        self._ready()

    def _on_started(self, kind: str) -> None:
        if not self.flow.active:
            self._begin(kind)

    def _begin(self, kind: str) -> None:
        self.flow.begin(kind)
        if kind != REREAD:
            self.cache.set_talking()
        config = self.applying.standing.running or self.applying.standing.in_use
        self.charts.set_method(None if config is None else type(config))
        if self._plan is not None and self._plan.idle:
            self.charts.set_waiting(self._plan.sentence.rstrip("."))
        elif config is not None:
            shapes = shapes_of(self._info)
            self.charts.set_waiting(waiting_words(config, shapes[0] if shapes else None))
        self._watch(True)
        self._ready()

    def _on_finished(self, step: FinishedStep) -> None:
        self.tick()
        self.flow.end(step)
        self.conversations.finished(step)
        self._refresh_words()

    def _on_failed(self, where: str, sentence: str, details: str) -> None:
        if where == "models":
            self.models.show_error(sentence, details)
        elif where == "cache":
            self._end_reread()
            self.cache.notice.show_error(sentence, details)
        elif where == "chat":
            self.tick()
            self.flow.broke()
            self.conversations.failed(sentence, details)
        else:
            self.chat.notice.show_error(sentence, details)
        self._ready()

    def _end_reread(self) -> None:
        self.tick()
        self.flow.end_reread(whole=False)
        self._refresh_words()

    def _on_state(self, state: str) -> None:
        if state != "loading":
            self.status.set_state(words.state(state))
        if state == "generating" and self.timer.isActive():
            # What was done for the prompt would hold up the first words.
            self.timer.start(SOON_MS)

    def _on_cancelled(self, where: str) -> None:
        if where == "cache":
            self._end_reread()
        elif where != "chat":
            self.models.set_progress_done()
        else:
            self.tick()
            self.flow.broke()
            self.conversations.cancelled()
        self._ready()

    # The timer ---------------------------------------------------------------------------------

    def tick(self) -> None:
        """Take what the engine has, hand it on, and rest when nothing more comes."""
        if self.flow.take(self.engine.drain()):
            self._ready()
        if self.flow.rereading is not None:
            self.cache.set_progress(self.flow.rereading)
        self._ticks += 1
        if self._ticks % TICKS_PER_WORDS == 0 or not self.flow.active:
            self._refresh_words()
        lay_out()
        self.timer.setInterval(self._pace.rest())
        if not self.flow.active and not self.engine.busy:
            self._watch(False)

    def _watch(self, on: bool) -> None:
        """Look at what the engine does from now on, or no longer."""
        self._cursors.keep_still(on)
        if on:
            self.timer.start(SHORTEST_MS)
        else:
            self.timer.stop()

    def _refresh_words(self) -> None:
        self.status.set_numbers(self.flow.snapshot, self._context, self.flow.speed)
        held = self.flow.snapshot.tokens if self.flow.snapshot else self.talk.row and self.talk.row.tokens
        self.below_prompt.gauge.show_tokens(held or None, self._context, self.talk.settings.at_limit)
        self.status.set_state(words.state(self.engine.state))
        if self.flow.snapshot is not None:
            self.cache.set_speed(self.flow.reading_speed)
            self.cache.set_snapshot(self.flow.snapshot)

    def _ready(self) -> None:
        """What can be done now, everywhere it shows."""
        if self._info is None:
            reason = "Load a model to write to it."
        elif self.models.is_busy():
            reason = "The engine is busy with the model."
        elif self.cache.config() is None:
            reason = "The engine is getting ready."
        elif self.applying.standing.running and not self.chat.is_empty():
            reason = "The conversation is read again through the new cache."
        else:
            reason = ""
        self.chat.set_ready(reason)
        self.applying.set_replying(self.flow.replying)
        self.actions_.update(
            can_regenerate=self.chat.can_regenerate(),
            replying=self.flow.active,
            has_model=self._info is not None,
        )
        self.top.export_button.setEnabled(self._info is not None)
        self.top.new_button.setEnabled(not self.chat.is_empty())
        self.status.set_state(words.state(self.engine.state))
        if self.chat.is_empty() and not self.models.is_busy():
            self.cache.set_talking(False)
            if self._info is not None:
                plan = self._plan
                self.chat.empty.show_model(self._info.name, plan.words if plan and plan.idle else "")
            else:
                starter = self.models.starter()
                offer = f"Load {starter.name}" if starter else GET_STARTER
                self.chat.empty.show_no_model(offer if self.models.is_known else "")
