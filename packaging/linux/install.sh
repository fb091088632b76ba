#!/bin/sh
# Puts the app into your desktop's menu, for you alone; --remove takes it out again. Nothing is copied but
# icons and menu entries: keep this folder where it is, or run this again after moving it.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
target=${XDG_DATA_HOME:-$HOME/.local/share}
entry="$target/applications/veloxquant-studio.desktop"
(cd "$here/share" && find . -type f) | while IFS= read -r file; do
    if [ "${1:-}" = --remove ]; then
        rm -f "$target/$file"
    else
        mkdir -p "$target/$(dirname -- "$file")"
        cp "$here/share/$file" "$target/$file"
    fi
done
if [ "${1:-}" != --remove ]; then
    # Quoted as the desktop entry specification has it: first for the quotes, then for the key's value.
    program=$(printf '%s' "$here/veloxquant-studio" | sed 's/[\\"$`]/\\&/g; s/\\/\\\\/g; s/%/%%/g')
    awk -v line="Exec=\"$(printf '%s' "$program" | sed 's/\\/\\\\/g')\" %f" \
        '/^Exec=/ { print line; next } { print }' "$here/share/applications/veloxquant-studio.desktop" > "$entry"
fi
for tool in update-desktop-database:applications update-mime-database:mime; do
    if command -v "${tool%%:*}" > /dev/null 2>&1; then
        "${tool%%:*}" "$target/${tool##*:}" > /dev/null 2>&1 || true
    fi
done
