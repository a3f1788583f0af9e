#!/usr/bin/env bash
# What make calls: builds xtask, and runs it. Whatever is built is built in one place in the cache (sync.sh).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
: "${BERTH_CACHE:?make sets it}" "${CARGO_TARGET_DIR:?make sets it}"
"$root/xtask/prepare.sh"
export BERTH_ROOT=$root BERTH_SRC=$BERTH_CACHE/src
mkdir -p "$BERTH_CACHE"
exec 9>"$BERTH_SRC.lock"
flock -n 9 || { echo "another make builds; waiting for it"; flock 9; }
"$root/xtask/sync.sh" "$BERTH_SRC"
# Static programs, whatever flags a shell has: as shell.rs has it for what xtask builds.
CARGO_BUILD_TARGET=$(cd "$root" && rustc -vV | sed -n 's/^host: //p')
export CARGO_BUILD_TARGET RUSTFLAGS="-C target-feature=+crt-static"
unset CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS
xtask=$CARGO_TARGET_DIR/$CARGO_BUILD_TARGET/debug/xtask
[ -e "$xtask" ] || echo "==> xtask, which builds and runs the rest (a minute)"
# The features that all of the workspace has together, so that cargo compiles nothing again for another command.
(cd "$BERTH_SRC" && cargo build --quiet --locked --workspace --example unify --bin xtask)
exec 9>&-
cd "$root"
exec "$xtask" "$@"
