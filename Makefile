# Two commands do everything: `make demo` and `make test`. What is built is kept outside of the checkout, in BERTH_CACHE.
SHELL := /bin/bash
export BERTH_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/berth
export CARGO_TARGET_DIR ?= $(BERTH_CACHE)/cargo
# Where rustup and Go's own archive install themselves.
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin
XTASK := ./xtask/run.sh

.PHONY: help demo demo-store demo-down test test-all test-fast chaos upgrade lint bench bench-down gen binaries images release

# No clusters, so neither Go nor root.
test-fast gen images release: export BERTH_NEEDS := build

# Tests ask nobody outside, and run what this checkout's recipes make.
test test-all test-fast chaos upgrade: export BERTH_BINARIES ?= build

help: ## What there is.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

demo: ## A meta cluster on this machine with Berth and a first tenant. Again: changes nothing. With BERTH_KUBECONFIG and IMAGE: on yours.
	@$(XTASK) demo

demo-store: ## The demo with somewhere to keep backups: to try docs/restore.md.
	@$(XTASK) demo-store

demo-down: ## Removes the demo: nothing of it is left. With BERTH_KUBECONFIG: from that cluster.
	@$(XTASK) demo-down

test: ## The checks and tests of every change, with real binaries and real clusters. Ends with a count.
	@$(XTASK) test

test-all: ## All of that and what takes longest. Cut off, it goes on where it was, at the same commit.
	@$(XTASK) test --all

test-fast: ## What a developer runs in a minute: format, generated files, rules between crates, pure crates.
	@$(XTASK) test --fast

chaos: ## Every case of the sweeps (crashes, fields, walks) and of faults of the meta cluster, in place of a sample. Cut off, it goes on where it was, at the same commit. ARGS="clock" for a part, SEED=n for another order.
	@$(XTASK) chaos --seed $(or $(SEED),0) $(ARGS)

lint: ## Format, clippy, generated files, rules between crates, charts, dependencies.
	@$(XTASK) test --only lint

upgrade: ## Tenants of FROM=<commit>'s operator are taken over by this one, and back: no pod may restart.
	@$(XTASK) upgrade --from $(or $(FROM),$(error FROM=<commit> is missing)) $(ARGS)

bench: ## Measures; ARGS="--runs 3 single" for a part. See bench/README.md.
	@$(XTASK) bench $(ARGS)

bench-down: ## Removes the benches' meta cluster; results stay in target/bench.
	@$(XTASK) bench-down

gen: ## Writes CustomResourceDefinitions, RBAC and the reference in docs.
	@$(XTASK) gen

images: ## Static binaries of the operator and the agent, as images in target/images.
	@$(XTASK) images

release: ## What a registry and a download page need, in target/berth-<version>: images, charts, kubectl-berth, SBOMs, checksums. See docs/release.md.
	@$(XTASK) release

binaries: ## What clusters and tests are made of, into the cache: fetched, or with BERTH_BINARIES=build from Go modules (half an hour).
	@$(XTASK) binaries
