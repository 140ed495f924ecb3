# klink. "make" or "make help" lists the targets.
#
# Nothing but Go and, for the tests against a real Kafka, package registries is
# needed. Variables: ARGS for demo, BENCH for bench,
# FUZZTIME for fuzz, GO, VERSION.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test unit e2e check fmt vet lint tidy rooms race fuzz-short fuzz bench soak clean go

GO      ?= go
LEAST   := 1.26
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X klink/cmd/app.version=$(VERSION)

# Pinned, so that a new release of it breaks nothing unasked. It must be built
# with a Go that knows the language version of go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# All but the whole-system tests, which start clusters and run by themselves.
UNIT = $$($(GO) list ./... | grep -v '^klink/e2e')

# FUZZTIME is per target for "make fuzz"; the short one of "make check" takes at
# most SHORT_FUZZ seconds per target and SHORT_FUZZ_ALL in all, several side by side.
FUZZTIME       ?= 120
SHORT_FUZZ     := 5
SHORT_FUZZ_ALL := 30

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | awk -F'\t' '{printf "  %-12s %s\n", $$1, $$2}'

go:
	@command -v $(GO) >/dev/null || { echo "klink needs Go $(LEAST) or later, and there is no '$(GO)' in PATH: see https://go.dev/dl" >&2; exit 1; }
	@$(GO) list -m >/dev/null || { echo "klink needs Go $(LEAST) or later; this is $$($(GO) version 2>/dev/null || echo unknown): see https://go.dev/dl" >&2; exit 1; }

build: go ## build bin/klink
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/klink ./cmd/klink

demo: build ## mirror between two embedded clusters and fail over, in a minute (ARGS=--keep leaves them running)
	bin/klink demo $(ARGS)

test: unit e2e ## unit tests, then whole-system tests against embedded and real clusters

unit: go ## unit tests alone
	$(GO) test -timeout 10m $(UNIT)

e2e: go ## whole-system tests alone
	$(GO) test -p 1 -timeout 25m ./e2e/...

check: fmt vet lint tidy rooms race fuzz-short ## format, vet, staticcheck, tidy, import rules, race detector, short fuzz

fmt: go
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "not formatted (gofmt -w):" >&2; echo "$$out" >&2; exit 1; }

vet: go
	$(GO) vet ./...

lint: go
	$(GO) run $(STATICCHECK) ./...

tidy: go
	$(GO) mod tidy -diff

rooms: go
	$(GO) test -run 'TestImportsPointOneWay|TestNoClientOnTheDataPath' ./cmd/klink

# The clusters of cmd/lab are real in "make test"; under the race detector its
# short tests do.
race: go
	$(GO) test -race -short -timeout 15m $(UNIT)

fuzz-short: go
	.ci/fuzz $(SHORT_FUZZ) $(SHORT_FUZZ_ALL)

fuzz: go ## fuzz each target for FUZZTIME seconds (120)
	.ci/fuzz $(FUZZTIME)

bench: go ## measure klink beside MirrorMaker 2 and a bare loop (BENCH='-only W2 -rounds 1' for a part)
	$(GO) test -run '^$$' -bench . -benchmem -timeout 30m ./fetcher/... ./linker/...
	$(GO) run ./e2e/bench $(BENCH)

soak: go ## the whole-system tests in their long size, for hours
	KLINK_SIZE=long $(GO) test -p 1 -count 1 -timeout 12h -v ./e2e/...

clean: ## remove what was built
	rm -rf bin dist
