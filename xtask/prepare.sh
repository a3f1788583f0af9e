#!/usr/bin/env bash
# What must be there before cargo can build the first line of ours. Everything that is missing is said at once.
set -euo pipefail
missing=()
# On a cluster that is there (`make demo` with BERTH_KUBECONFIG) nothing is built but the demo itself.
given=${BERTH_KUBECONFIG:-}
# What only builds (`make images`) makes no cluster.
clusters=yes
if [ -n "$given" ] || [ "${BERTH_NEEDS:-}" = build ]; then clusters=; fi
[ -n "$given" ] || [ "$(uname -s)" = Linux ] || missing+=("Linux: clusters are made of its namespaces and cgroups")
command -v cargo >/dev/null || missing+=("Rust: https://rustup.rs")
# Otherwise devcluster asks for it, if something is built by it in the end: by then it knows what is fetched.
[ -z "$clusters" ] || [ "${BERTH_BINARIES:-}" != build ] || command -v go >/dev/null || missing+=("Go 1.26 or newer: https://go.dev/dl")
[ -z "$clusters" ] || [ "$(id -u)" = 0 ] || missing+=("root: clusters need namespaces, mounts and cgroups")
if ! command -v cc >/dev/null || { [ -z "$given" ] && [ ! -e /usr/include/stdio.h ]; }; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "==> installing a C compiler"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev
    else
        missing+=("a C compiler: apt-get install gcc libc6-dev")
    fi
fi
# On a new machine neither the cache nor what it lies in may be there yet.
cache=${BERTH_CACHE:-$HOME}
while [ ! -e "$cache" ]; do cache=$(dirname "$cache"); done
free=$(df -Pk "$cache" 2>/dev/null | awk 'NR == 2 { print int($4 / 1048576) }') || true
if [ -z "$given" ] && [ "${free:-99}" -lt 8 ]; then
    missing+=("disk: ${free} GiB are free where ${BERTH_CACHE:-$HOME} lies; builds and images need 8, and 25 the first time")
fi
if [ ${#missing[@]} -gt 0 ]; then
    printf 'missing:\n' >&2
    printf '  %s\n' "${missing[@]}" >&2
    exit 1
fi
