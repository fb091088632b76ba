"""The menu's actions on presets of one's own and on the clipboard."""

from typing import TYPE_CHECKING

from PySide6.QtGui import QGuiApplication

from studio.core.presets import OwnPreset, PresetStore, read_preset, write_preset
from studio.ui.preset_box import title_of
from studio.ui.preset_menu import PresetMenu, ask_export_to, ask_imports, ask_name
from studio.ui.setting_changes import PresetDeletion
from veloxquant_mlx.config import KVCacheConfig
from veloxquant_mlx.errors import VeloxQuantError
from veloxquant_mlx.spelling import spell_command, spell_python

if TYPE_CHECKING:
    from studio.ui.cache_panel import CachePanel


class PresetActions:
    """Keeps, renames, deletes, carries and copies what the panel stands for."""

    def __init__(self, panel: "CachePanel", menu: PresetMenu, store: PresetStore) -> None:
        self._panel, self._menu, self._store = panel, menu, store
        self.model = ""
        """Folder of the loaded model, for the command."""
        for action, do in (
            (menu.save, self.save), (menu.rename, self.rename), (menu.delete, self.delete),
            (menu.import_, self.import_), (menu.export, self.export),
            (menu.python, self.copy_python), (menu.command, self.copy_command),
        ):  # fmt: skip
            action.triggered.connect(lambda _checked=False, do=do: self._try(do))

    def offer(self, config: KVCacheConfig) -> None:
        """Enable what can be done with a configuration."""
        own = self._store.named(config)
        is_own = own is not None and config.preset_name() is None
        self._menu.rename.setEnabled(is_own)
        self._menu.delete.setEnabled(is_own)
        self._menu.save.setEnabled(not is_own)

    def save(self, config: KVCacheConfig) -> None:
        """Keep the settings under a name."""
        proposed = self._store.free_name("My preset", config)
        name = ask_name(
            self._panel, "Save as preset", proposed, lambda n: self._store.checked_name(n, config)
        )
        if name is not None:
            self._store.add(name, config)
            self._panel.presets_changed()

    def rename(self, config: KVCacheConfig) -> None:
        """Another name for the preset that is shown."""
        preset = self._own(config)
        name = ask_name(
            self._panel, "Rename preset", preset.name,
            lambda n: self._store.checked_name(n, config, but=preset),
        )  # fmt: skip
        if name is not None:
            self._store.rename(preset, name)
            self._panel.presets_changed()

    def delete(self, config: KVCacheConfig) -> None:
        """Forget the preset that is shown; it can be taken back."""
        stack, preset = self._panel.undo_stack, self._own(config)
        say = self._panel.notice.show_error
        stack.push(PresetDeletion(self._store, preset, self._panel.presets_changed, say))

    def import_(self, config: KVCacheConfig) -> None:
        """Add presets from files; the first that can't be used is said, the others are added."""
        added: list[str] = []
        refused: VeloxQuantError | None = None
        for path in ask_imports(self._panel):
            try:
                preset = read_preset(path)
                name = self._store.free_name(preset.name, preset.config)
                self._store.add(name, preset.config)
                added.append(f"{name} ({preset.config.label})")
            except VeloxQuantError as error:
                refused = refused or error
        self._panel.presets_changed()
        if refused is not None:
            raise refused
        if added:
            self._panel.notice.show_note(f"Imported {', '.join(added)}.")

    def export(self, config: KVCacheConfig) -> None:
        """Write the settings as a file for others."""
        name = title_of(config, self._store.of(config.method))
        path = ask_export_to(self._panel, f"{config.label} {name}")
        if path is not None:
            write_preset(OwnPreset(path.stem, config), path)
            self._panel.notice.show_note(f"Preset saved to {path}.")

    def copy_python(self, config: KVCacheConfig) -> None:
        """The configuration as Python."""
        QGuiApplication.clipboard().setText(spell_python(config))
        self._panel.notice.show_note("The Python lines are on the clipboard.")

    def copy_command(self, config: KVCacheConfig) -> None:
        """The configuration as a command line."""
        QGuiApplication.clipboard().setText(spell_command(config, self.model or "starter"))
        self._panel.notice.show_note("The command is on the clipboard.")

    def _own(self, config: KVCacheConfig) -> OwnPreset:
        preset = self._store.named(config)
        if preset is None:
            raise VeloxQuantError("These settings are no preset of your own.")
        return preset

    def _try(self, do: object) -> None:
        config = self._panel.config()
        if config is None:
            return
        self._panel.notice.clear()
        try:
            do(config)  # type: ignore[operator]
        except VeloxQuantError as error:
            self._panel.notice.show_error(str(error))
