# make check is what CI runs. Everything else is part of it or a longer look at one thing.

GO          ?= go
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
BENCHTIME   ?= 1s
COUNT       ?= 6

# The packages that run things at the same time, or are promised to be safe for it.
CONCURRENT = . ./internal/team ./exec ./iter ./passes ./graph ./internal/whole

.PHONY: check lint format vet staticcheck test race regenerate fuzz bench

check: test lint

# All of check but the plain tests, which CI runs by themselves.
lint: format vet staticcheck race regenerate

format:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt:"; echo "$$out"; exit 1; }

vet:
	$(GO) vet ./...

staticcheck:
	$(STATICCHECK) ./...

test:
	$(GO) test ./...

race:
	$(GO) test -race $(CONCURRENT)

# Generated files: marked sources, and the weights of the example graphs.
GENERATED = { grep -rlE '^// Code generated .* DO NOT EDIT' --include='*.go' --include='*.s' . ; ls examples/models/*.npz; } | sort

# Compares sums rather than asking git, so that it works on uncommitted changes too.
regenerate:
	@before=$$($(GENERATED) | xargs sha256sum) && $(GO) generate ./... && after=$$($(GENERATED) | xargs sha256sum) && \
	if [ "$$before" != "$$after" ]; then \
		echo "go generate ./... changes files:"; \
		printf '%s\n%s\n' "$$before" "$$after" | sort | uniq -u | awk '{print "  " $$2}' | sort -u; exit 1; \
	fi

# Every fuzz target for FUZZTIME.
fuzz:
	@set -e; grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sed 's/:func / /' | \
	while read -r file name; do \
		echo "== $$(dirname $$file) $$name"; \
		$(GO) test "./$$(dirname $$file)" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME); \
	done

# Output for benchstat.
bench:
	$(GO) test ./... -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(COUNT)
