# make check is what CI runs. Everything else is part of it or a longer look at one thing.

GO          ?= go
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
BENCHTIME   ?= 1s
COUNT       ?= 6

# The packages that run things at the same time, or are promised to be safe for it.
CONCURRENT = . ./internal/team ./exec ./iter ./passes ./graph ./internal/whole

# What computes otherwise where there is less of machine code, or none, and what holds results against references.
PATHS = ./internal/machine ./internal/gemm ./internal/strided ./internal/jit/... ./iter/... ./kernels/... ./exec \
	./passes ./passes/layout ./internal/whole ./onnx

# Code generators. Their tests make the code of every instruction set and run all code that the processor can run, so
# that make test, where there is AVX-512, has run all that the path without it would.
GENERATORS = ./internal/jit/asm ./internal/jit/jittest ./internal/jit/requantise ./internal/jit/slide \
	./internal/jit/tile ./internal/jit/vector ./internal/jit/winograd

# Packages whose tests run with machine code switched off. Whole graphs run without it under the race detector.
ASKS = ./internal/jit ./iter/...

# What computes on the matrix unit where there is one; whole graphs in which it has a part.
UNIT = ./internal/machine ./internal/jit/tile ./kernels/product ./kernels/conv ./kernels/quantised
UNIT_GRAPHS = ^(TestQuantise.*|TestHalfwayLevels.*|TestGreatestOf.*|TestConvolvedSums|TestTailsOf.*)$$

# What has files for builds without assembly.
STUBS = ./internal/machine ./internal/gemm ./internal/strided ./internal/jit ./internal/team

# Tests collect garbage a quarter as often, which takes a third off their time for 200 MB more, and have no symbols for
# debuggers, which takes a third off linking.
TEST = GOGC=400 $(GO) test -ldflags=-w

# Random loops that are compiled and interpreted: a million different ones, half of them for each instruction set. Two
# million are each of these for both.
LOOPS ?= 1000000

# How long calls with extreme attributes are drawn on each path. Each prints at the end how many calls there were, how
# many of these were accepted, and the faults.
EXTREMETIME ?= 60s
# The first call; an empty one is drawn.
EXTREMESEED ?= 1

# Tests of kernels' results that take seconds: without machine code they are the interpreter's.
VALUES = ^(TestCatalogue|TestSpecialNumbers|Test.*Oracle)$$

.PHONY: check lint paths avx2 nounit portable noasm loops extreme types builds format vet staticcheck test race \
	regenerate fuzz bench release

check: test paths lint

# The tests on the paths that this machine does not take by itself, and the long one of machine code.
paths: avx2 nounit portable noasm loops extreme

# Tests outside GENERATORS that run the code of both instruction sets: a process that has AVX-512 has run all of it.
BOTH_SETS = ^(TestCompiledLoops|TestEmittedForms)$$

# Tests that make code of every instruction set and run none: they are the same with and without assembly.
CODE_ONLY = ^(TestEmittedForms|TestForms)$$

# What this process has, as a test tells it. One that fails or does not tell fails what asks.
SAID = said=$$($(GO) test -count=1 -v -run '^TestInstructions$$' ./internal/machine 2>&1) || { echo "$$said"; exit 1; }

# Results do not depend on the cache of go test: it does not know of GODEBUG.
avx2:
	@$(SAID); \
	case "$$said" in \
	*'this process: avx512'*) set -x; \
		GODEBUG=cpu.avx512f=off $(TEST) -count=1 -vet=off -skip '$(BOTH_SETS)' \
			$$($(GO) list $(PATHS) | grep -vxF "$$($(GO) list $(GENERATORS))") ;; \
	*'this process: '*) echo "avx2: nothing to do, this processor has no AVX-512: make test ran without" ;; \
	*) echo "avx2: TestInstructions does not tell what this process has"; exit 1 ;; \
	esac

# Without the matrix unit, and with all else that there is. Go's compiler, too, says that it does not know the name,
# which only golang.org/x/sys does.
NOUNIT = -exec 'env GODEBUG=cpu.amxtile=off'
nounit:
	@$(SAID); \
	case "$$said" in \
	*'this process: '*' with a matrix unit'*) set -ex; \
		$(TEST) $(NOUNIT) -count=1 -vet=off $(UNIT); \
		$(TEST) $(NOUNIT) -count=1 -vet=off -run '$(VALUES)' ./kernels; \
		$(TEST) $(NOUNIT) -count=1 -vet=off -run '$(UNIT_GRAPHS)' ./internal/whole ;; \
	*'this process: '*) echo "nounit: nothing to do, there is no matrix unit: make test ran without" ;; \
	*) echo "nounit: TestInstructions does not tell what this process has"; exit 1 ;; \
	esac

# Machine code switched off: expressions run block by block in Go.
portable:
	GRAPHRUN_JIT=off $(TEST) -count=1 -vet=off $(ASKS)
	GRAPHRUN_JIT=off $(TEST) -count=1 -vet=off -run '$(VALUES)' ./kernels

# Nothing of ours in assembly: what other processors run.
noasm:
	$(GO) vet -tags noasm $(STUBS)
	$(TEST) -tags noasm -vet=off -skip '$(CODE_ONLY)' $(PATHS)

loops:
	GRAPHRUN_LOOPS=$(LOOPS) $(TEST) -count=1 -run '^TestRandomLoops$$' -timeout 60m -v ./internal/jit/vector

# With what the processor has, without AVX-512, and without machine code.
extreme:
	@failed=0; for path in GRAPHRUN_JIT=on GODEBUG=cpu.avx512f=off GRAPHRUN_JIT=off; do \
		echo "== $$path"; \
		env $$path GRAPHRUN_EXTREME=$(EXTREMETIME) GRAPHRUN_EXTREME_SEED=$(EXTREMESEED) \
			$(TEST) -count=1 -vet=off -run '^TestExtremeSoak$$' -timeout 0 -v ./kernels/internal/extreme || failed=1; \
	done; exit $$failed

# Platforms for which everything builds. The library alone builds for wasip1, where no terminal is known. A build
# takes 100 s of one core on a fresh machine, type-checking from source 6 s: CI does the latter on all of them.
PLATFORMS = linux/amd64 linux/arm64 linux/386 linux/arm darwin/amd64 darwin/arm64 windows/amd64 windows/arm64 \
	freebsd/amd64 freebsd/arm64

types:
	$(GO) run ./scripts/platforms $(PLATFORMS) wasip1/wasm

builds:
	@set -e; for p in $(PLATFORMS); do \
		echo "build $$p"; CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build ./...; \
	done; \
	export CGO_ENABLED=0 GOOS=wasip1 GOARCH=wasm; echo "build wasip1/wasm, without the command"; \
	$(GO) build $$($(GO) list ./... | grep -v -e /cmd/ -e /scripts/)
	@set -e; for os in darwin windows; do echo "vet $$os"; CGO_ENABLED=0 GOOS=$$os $(GO) vet ./...; done

# The command as it is released: static, without symbols and paths. GOOS and GOARCH select another platform.
RELEASE ?= graphrun$$($(GO) env GOEXE)
release:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o "$(RELEASE)" ./cmd/graphrun

# All of check but tests of results, and go vet, which is part of test.
lint: format types staticcheck race regenerate

format:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt:"; echo "$$out"; exit 1; }

vet:
	GOGC=400 $(GO) vet ./...

# It is 30 % faster if it collects garbage less often, and has 800 MB then.
staticcheck:
	GOGC=400 $(STATICCHECK) ./...

# With all of go vet. The other paths have the same files, but for builds without assembly.
test:
	$(TEST) -vet=all ./...

race:
	$(TEST) -race -vet=off $(CONCURRENT)

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
