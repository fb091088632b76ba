"""What an engine tells: rare events, as signals."""

from PySide6.QtCore import QObject, Signal


class Events(QObject):
    """The rare events of an engine; the worker emits them on its thread, the Engine on the GUI's."""

    methods_ready = Signal(object)
    """dict of method name -> KVCacheConfig class."""
    models_found = Signal(object)
    """list of ModelInfo."""
    machine_told = Signal(object)
    """Machine: what a model may be planned for, before ``models_found``."""
    progress = Signal(object, str)
    """Share done (or None) and words, while loading, importing or fetching."""
    loaded = Signal(object)
    """LoadedInfo."""
    unloaded = Signal()
    plan_changed = Signal(object)
    """Plan, after configure where a model is loaded."""
    configured = Signal(object)
    """The configuration that is in use from now on, after configure."""
    started = Signal(str)
    """``reply``, ``regenerate`` or ``continue``: the prompt is accepted and being read; ``reread``: the
    conversation is."""
    over_limit = Signal(object, object)
    """Request and Excess: memory seems too small for it. It is not begun; ask again with its ``limit`` 0."""
    dropped = Signal(int)
    """So many of the oldest messages are left out of what is read, for the context can't hold them."""
    noted = Signal(str)
    """Something to be said calmly: it stops nothing."""
    caches_told = Signal(object)
    """Bytes that the saved caches of all chats take, measured."""
    saving = Signal(bool)
    """Whether the cache of a chat is being written to disk."""
    counted = Signal(object, int)
    """What was handed to ``count`` and its tokens."""
    finished = Signal(object)
    """FinishedStep."""
    failed = Signal(str, str, str)
    """Where (models, chat, cache, export, attach, side), one sentence, details."""
    comparing = Signal(object)
    """How far the conversation is read through the uncompressed cache, a ReplayStep; None when it ended."""
    compared = Signal(object)
    """Comparison: what the uncompressed cache would have said."""
    tried = Signal(object)
    """Tried: a setting on the conversation's exact rows, after every slot."""
    finding = Signal(object)
    """Finding: how far the search for the smallest setting is; None when it ended before its end; a sentence
    when there is nothing to search."""
    answered = Signal(object)
    """Answer: what a column has of an answer side by side; None when all of them have ended."""
    exported = Signal(str)
    """Path of the report."""
    cancelled = Signal(str)
    """Where; the work was undone."""
    state_changed = Signal(str)
    """starting, idle, loading, resuming, prefill, generating or rereading."""
