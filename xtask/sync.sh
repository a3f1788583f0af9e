#!/usr/bin/env bash
# Puts this checkout into the folder $1, where make builds, whichever checkout it is called in.
#
# Cargo asks for the times of files, not for their content, and knows some of them by their absolute path. In one place, where a file
# is written only if its content differs, a second clone finds built what the first one built, and nothing that is not of these sources.
# Whoever calls this holds the lock $1.lock until cargo has ended.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sums() {
    cd "$1"
    find . \( -path ./.git -o -path ./target \) -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha1sum
}
mkdir -p "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(sums "$root") | LC_ALL=C sort >"$work/here"
(sums "$1") | LC_ALL=C sort >"$work/there"
# A line is a sum, two spaces, and a path: first what is no longer so, then what is new.
LC_ALL=C comm -13 "$work/here" "$work/there" | cut -c43- | (cd "$1" && xargs -r -d '\n' rm -f)
LC_ALL=C comm -23 "$work/here" "$work/there" | cut -c43- >"$work/new"
tar -C "$root" -cf - -T "$work/new" | tar -C "$1" -xmf -
find "$1" -mindepth 1 -type d -empty -delete
