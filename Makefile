# .ci/run is what continuous integration runs. These targets are parts of it, or additional checks.

GO       ?= go
FUZZTIME ?= 10s
EXTREME  ?= 20m
DIST     ?= dist
RELEASE  ?= graphrun$$($(GO) env GOEXE)

.PHONY: check thorough arm64-older fused typecheck generated extreme fuzz bench false-alarms beam-prism release releases

check:
	.ci/run

# All cases of random tests, and everything that CI leaves to a release: before one, and after a change of a code
# generator.
thorough: extreme beam-prism arm64-older
	GRAPHRUN_TESTS=all GRAPHRUN_LOOPS=100000 $(GO) test -timeout 3h ./...
	GRAPHRUN_TESTS=all $(GO) test -timeout 3h -race ./exec ./internal/workerpool
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...
	$(MAKE) check releases

# Lists the fused multiply-adds of the command for arm64, which round differently from amd64: there must be none.
fused:
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -ldflags= -o "$$dir/graphrun" ./cmd/graphrun && \
	$(GO) run ./scripts/fused "$$dir/graphrun"

# Type-checks packages and tests for platforms on which nothing runs here; noasm is a build tag.
typecheck:
	$(GO) run ./scripts/typecheck linux/amd64,noasm linux/arm64 linux/386 darwin/arm64 windows/amd64 wasip1/wasm
	cd beam && $(GO) run ../scripts/typecheck/main.go linux/amd64
	cd compat/onnxruntime && $(GO) run ../../scripts/typecheck/main.go linux/386 darwin/arm64 windows/amd64 wasip1/wasm
	cd compat/microsoft && $(GO) run ../../scripts/typecheck/main.go linux/386 darwin/arm64 windows/amd64 wasip1/wasm
	cd compat/hugot && $(GO) run ../../scripts/typecheck/main.go darwin/arm64 windows/amd64

# go generate changes no file. The tree is compared, so that it works with uncommitted changes.
generated:
	tree() { GIT_INDEX_FILE="$$dir/index" git add -A && GIT_INDEX_FILE="$$dir/index" git write-tree; }; \
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && before=$$(tree) && $(GO) generate ./... && after=$$(tree) && \
	git diff --stat --exit-code $$before $$after

# Calls of every op with extreme attributes, on three paths, for a time or a number of calls on each.
extreme:
	for path in GRAPHRUN_JIT=on GODEBUG=cpu.avx512f=off GRAPHRUN_TARGET=portable; do \
		env $$path GRAPHRUN_EXTREME=$(EXTREME) $(GO) test -count=1 -timeout 0 -v -run TestExtremeSoak \
			./kernels/internal/extreme || exit 1; \
	done

# Processors that lack instructions which the emulator of .ci/run has.
arm64-older:
	for cpu in neoverse-n1 cortex-a72; do \
		CGO_ENABLED=0 GOARCH=arm64 $(GO) test -vet=off -short -timeout 1h -exec "qemu-aarch64-static -cpu $$cpu" \
			./internal/jit/vector ./internal/jit/tile ./internal/jit/depthwise ./kernels/internal/conv || exit 1; \
	done

fuzz:
	grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' . | sed 's/:func / /' | while read -r file name; do \
		$(GO) test "./$$(dirname $$file)" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) || exit 1; \
	done

# Output for benchstat.
bench:
	$(GO) test ./... -run '^$$' -bench . -benchmem -count 6

# Compares equal plans 200 times: fails if more than 5 in 100 comparisons find a difference.
false-alarms:
	$(GO) test ./experiment -run '^$$' -bench EqualPlans -benchtime 200x -cpu 1

# All of module beam on Prism: 600 packages, 0.9 GB of the module cache and five minutes of CPU time.
beam-prism:
	cd beam && $(GO) test ./... && $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

# The released form of the command: static, without symbols and paths. GOOS and GOARCH select another platform.
release:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o "$(RELEASE)" ./cmd/graphrun

# The released commands of all platforms, and their checksums. The same commit and version of Go give the same bytes.
releases:
	mkdir -p "$(DIST)" && for os in linux darwin windows; do for arch in amd64 arm64; do \
		GOOS=$$os GOARCH=$$arch $(MAKE) release RELEASE="$(DIST)/graphrun-$$os-$$arch$$(GOOS=$$os $(GO) env GOEXE)" || exit 1; \
	done; done && cd "$(DIST)" && sha256sum graphrun-* | tee SHA256SUMS
