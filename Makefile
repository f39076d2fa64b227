# make check is what CI runs, in the order of .ci/run. The other targets are parts of it, or additional checks.

GO          ?= go
STATICCHECK ?= $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 10s
BENCHTIME   ?= 1s
COUNT       ?= 6

# The packages whose tests use goroutines. Those of passes and graph use none but for folding, which endtoend tests.
CONCURRENT = . ./internal/workerpool ./exec ./iter ./internal/endtoend

# Tests that run on one goroutine (they plan, infer, evaluate the definition, or run with one worker or in one chunk),
# and tests whose concurrent steps are those of other tests.
SEQUENTIAL = ^(TestATen|TestBandsFail|TestBandsNeedMemory|TestBestPlans|TestCacheBits|TestCertificates.*|$(\
	)TestCheapestWithin|TestClasses.*|TestCopyElementsEnds|$(\
	)TestCopyInto(IsElementwise|OverlapAsPyTorch|Transposes)|TestDamagedCache|TestDetector|TestDeviceMemory|$(\
	)TestFewestCopies|TestForkedGraphs|TestInferenceAllocates|$(\
	)TestLiveBytes|TestManyThatTakeTurns|TestMemoryIsTakenOverInOrder|TestNormsAreRows|TestOpsAsText|$(\
	)TestOpsStaySymbolic|TestOptimum.*|TestOutcomes|TestPackingEnds|TestPartsAreLaidOutAsTheWhole|$(\
	)TestPins(AtSizes|Hold)|TestQuantizedConvolutionsAreOfBytes|TestQuantizesAnyNumber|TestReport|$(\
	)TestRunIntoAllocatesNothing|TestRunsEndWithinRows|TestStepsArePricedByOperand|TestStrategies|TestSumBound|$(\
	)TestSymbolic.*|TestTiles|TestTurned|TestUnbacked.*|TestUncachedPlans|TestUpsamplings|$(\
	)TestValuesBetweenSegmentsAreRecycled|TestValuesOfLoopsAreRecycled|TestWithoutExecutableMemory)$$

# The packages that have several paths, with different instruction sets or without machine code, and those that compare
# results with references.
PATHS = ./internal/machine ./internal/gemm ./internal/strided ./internal/jit/... ./iter/... ./kernels/... ./exec \
	./internal/endtoend

# Code generators. Their tests generate code for every instruction set and run all code that the processor supports. On
# a processor with AVX-512, make test therefore covers everything that target narrow would.
GENERATORS = ./internal/jit/alloc ./internal/jit/depthwise ./internal/jit/jittest ./internal/lane \
	./internal/jit/requantize ./internal/jit/target/... ./internal/jit/tile ./internal/jit/vector ./internal/jit/winograd

# Packages whose tests run with machine code switched off. Whole graphs run without machine code under the race
# detector.
ASKS = ./internal/jit ./iter/...

# The packages that use the matrix unit, and the tests of whole graphs that use it.
UNIT = ./internal/machine ./internal/jit/tile ./kernels/internal/product ./kernels/internal/conv ./kernels/internal/quantized
UNIT_GRAPHS = ^(TestQuantize.*|TestHalfwayLevels.*|TestGreatestOf.*|TestConvolvedSums|TestTailsOf.*)$$

# Packages that have files for builds without assembly, except kernels/internal/window, whose dependencies all would be
# compiled again.
STUBS = ./internal/machine ./internal/gemm ./internal/strided ./internal/jit ./internal/workerpool

# Compilers and tests collect garbage an eighth as often, which saves a third of their time and costs 300 MB. Tests have
# no symbols and no debug information, which saves a third of the time for linking.
TEST = GOGC=800 $(GO) test -ldflags=-s

# The number of random loops that are compiled and interpreted, all different, half of them for each instruction set.
# From two million on, each of those loops is tested for both. The seeds are the same in each run, so that more loops
# only find faults of a changed code generator: such a change is tested with a million, in some minutes.
LOOPS ?= 5000

# The number of calls with extreme attributes on each path, about 30 of each op, or a duration such as 20m. The seeds are
# the same in each run; a change of kernels is tested with an empty seed for longer. Each path prints the number of
# calls, how many of them were accepted, and the failures.
EXTREME ?= 2000
# Seed of the first call; if it is empty, it is drawn.
EXTREMESEED ?= 1

# Tests of kernels' results that take seconds. Without machine code they test the interpreter.
VALUES = ^(TestCatalogue|TestSpecialNumbers|Test.*Oracle)$$

.PHONY: check thorough gpu paths narrow test-narrow nounit portable noasm loops extreme extreme-narrow arm64 builds beam \
	beam-prism fused format vet staticcheck test race regenerate fuzz bench false-alarms release releases

# The checks, two at a time, so that one uses the processors while the other waits for a link or a slow test. A check
# follows the checks whose builds it uses: fused and arm64, test and staticcheck.
CHECKS = test-narrow fused format builds arm64 race staticcheck nounit portable noasm loops extreme-narrow beam gpu
check:
	$(MAKE) -j2 --output-sync=target $(CHECKS)
	$(MAKE) regenerate

# All cases of random tests (make check draws few), those of steps and workers with the race detector too, the tests of
# module beam, staticcheck of tests, builds for other platforms, and the parts of paths, arm64 and builds that take long:
# before a release, and after a change of a code generator.
thorough:
	GRAPHRUN_TESTS=all $(MAKE) test
	GRAPHRUN_TESTS=all $(MAKE) race CONCURRENT="./exec ./internal/workerpool"
	$(MAKE) beam-prism
	$(MAKE) staticcheck CODE=
	$(MAKE) check CHECKS="$(CHECKS:extreme-narrow=extreme)" LOOPS=100000 EXTREME=20000 \
		PLATFORMS="linux/386 linux/arm64 darwin/arm64 windows/amd64" \
		PATHS="$(PATHS) ./passes ./passes/layout ./onnx" RACED= ARM64_PORTABLE=kernels ARM64_TESTS= ARM64_LOOPS=1000 \
		ARM64="iter expr expr/expand expr/internal/elementary $(ARM64)" \
		CHECKED="$(CHECKED) linux/arm darwin/amd64 windows/arm64 freebsd/amd64 freebsd/arm64"

# The module gpu, which has the drivers of devices. Its last line lists the devices that were tested, or says that there
# are none. GRAPHRUN_TESTS=all runs all expressions.
gpu:
	cd gpu && GOGC=400 $(STATICCHECK) ./... && $(TEST) -vet=all ./... && { $(GO) run ./cmd/graphrun-gpu devices || true; }

# The tests on the paths that this machine does not take by default, and the long test of machine code.
paths: narrow nounit portable noasm loops extreme arm64

# Tests outside GENERATORS that run the code of both instruction sets, which make test has done with AVX-512; tests of
# plans, which hold for any prices; tests of inference, memory and devices; and the test that kernels allocate nothing.
SAME_ON_PATHS = ^(TestATen|TestCompiledLoops|TestEmittedForms|TestBestPlans|TestCertificates.*|TestCheapestWithin|$(\
	)TestClasses.*|TestCodeIsLetGo|TestDevice.*|TestFewestCopies|TestForkedGraphs|TestInferenceAllocates|$(\
	)TestLiveBytes|TestLongRowsOnce|TestNormsAreRows|TestNothingIsAllocatedByKernels|TestOpsAsText|$(\
	)TestOpsStaySymbolic|TestOptimum.*|TestOutcomes|TestPins.*|TestPointwiseKernelsFitTheirIterations|TestRows|$(\
	)TestStepsArePricedByOperand|TestSymbolic.*|TestUnbacked.*|TestUnknownSizes|TestWrittenWithin)$$

# The instruction set of this process, as a test prints it. If the test fails or prints none, the target fails.
SAID = said=$$($(GO) test -count=1 -v -run '^TestInstructions$$' ./internal/machine 2>&1) || { echo "$$said"; exit 1; }

# Tests on the paths of processors with fewer instructions: with AVX2, and without machine code and assembly. Each test
# program is linked once and runs once for each path. -count=1: go test's cache does not know the paths. The target
# extreme draws calls for these paths. The race detector has run the packages of RACED without machine code. The target
# test-narrow is both test and narrow: a program runs first on the path that this machine takes by default.
RACED = $(CONCURRENT)
narrow test-narrow:
	@$(SAID); \
	case "$$said" in \
	*'this process: avx512'*) narrow='GODEBUG=cpu.avx512f=off GRAPHRUN_TARGET=portable' ;; \
	*'this process: portable'*) echo "narrow: no more paths, this process has no machine code"; narrow= ;; \
	*'this process: '*) narrow=GRAPHRUN_TARGET=portable ;; \
	*) echo "narrow: TestInstructions does not tell what this process has"; exit 1 ;; \
	esac; \
	folders() { $(GO) list -f '{{.Dir}}' "$$@"; }; \
	several=$$(folders $(PATHS) | grep -vxF "$$(folders $(GENERATORS) ./kernels/internal/extreme)"); \
	case $@ in narrow) first=; run="-vet=off $$several" ;; *) first=yes; run="-vet=all ./..." ;; esac; set -x; \
	FIRST=$$first NARROW="$$narrow" SEVERAL="$$several" RACED="$$(folders $(RACED))" SKIP='$(SAME_ON_PATHS)' \
		$(TEST) -count=1 -exec '$(CURDIR)/scripts/narrow.sh' $$run

# Without the matrix unit, but with everything else. GODEBUG is set only for the test processes: Go's compiler reports
# cpu.amxtile as unknown, because only golang.org/x/sys knows it.
NOUNIT = -exec 'env GODEBUG=cpu.amxtile=off'
nounit:
	@$(SAID); \
	case "$$said" in \
	*'this process: '*' with a matrix unit'*) set -ex; \
		$(TEST) $(NOUNIT) -count=1 -vet=off $(UNIT); \
		$(TEST) $(NOUNIT) -count=1 -vet=off -run '$(UNIT_GRAPHS)' ./internal/endtoend ;; \
	*'this process: '*) echo "nounit: nothing to do, there is no matrix unit: make test ran without" ;; \
	*) echo "nounit: TestInstructions does not tell what this process has"; exit 1 ;; \
	esac

# Machine code is switched off: expressions are interpreted block by block in Go.
portable:
	GRAPHRUN_JIT=off $(TEST) -count=1 -vet=off $(ASKS)
	GRAPHRUN_JIT=off $(TEST) -count=1 -vet=off -run '$(VALUES)' ./kernels

# The build without assembly of this module. Target narrow tests the other packages as they are in it, and target builds
# type-checks all.
noasm:
	$(TEST) -tags noasm -vet=off $(STUBS)

# Tests on an emulated arm64, for which qemu-user is needed. A test takes 20 to 50 times as long as on amd64: tests that
# take seconds and do not depend on the processor are left out. The build cache has the packages that fused builds.
ARM64 = internal/jit internal/lane internal/jit/vector internal/jit/tile internal/jit/depthwise \
	internal/jit/winograd internal/jit/target/arm64 kernels kernels/internal/conv internal/endtoend
# Convolutions of bytes are the only convolutions that are tested here. All of them run on neoverse-n1, and products on
# max, too, which has instructions for matrices of bytes. Of the tests of graphs, some that take a few seconds are run.
ARM64_GRAPHS = ^(TestRandomGraphs|TestFusedNumbers|TestTailsIntoOtherDTypes|TestTailsOfWinograd)$$
# The packages that generate code are also tested on older processors, which lack some instructions.
ARM64_GENERATORS = internal/jit/vector internal/jit/tile internal/jit/depthwise
# The packages whose results without machine code are compared with the results of amd64 (thorough: kernels). Target
# fused finds the usual cause of a difference.
ARM64_PORTABLE =
ARM64_SLOW_BASE = TestFormulasAgreeWithPyTorch|TestSuggestedFormatsOfAllSmallSizes|TestConversions|TestSimplifyKeepsBits
ARM64_SLOW_BASE := $(ARM64_SLOW_BASE)|TestCopyElementsEnds
ARM64_SLOW_BASE := $(ARM64_SLOW_BASE)|TestTiles|TestSumBound|TestNothingIsAllocatedByKernels|TestReleased.*|TestDropped.*
ARM64_SLOW_CODE = TestSelectOps|TestForms|TestEmittedForms|TestDigests.*|TestRulesNEON|TestOperations|TestWork
ARM64_SLOW_CODE := $(ARM64_SLOW_CODE)|TestLevelsForms|TestBytesForms
ARM64_SLOW_KERNELS = TestAnyOrder|TestCompiled.*|TestCallsAreShort|TestGuarded|TestPointwise.*|Test.*Oracle|TestSelection.*
ARM64_SLOW_KERNELS := $(ARM64_SLOW_KERNELS)|TestSpecialNumbers|TestRates|TestUnknownSizes|TestWalk
ARM64_SLOW_KERNELS := $(ARM64_SLOW_KERNELS)|TestCatalogue|TestRows|TestGuards
ARM64_SLOW_KERNELS := $(ARM64_SLOW_KERNELS)|TestWorksAreIndependent|TestParallel|TestIndexBounds|TestViewsAgainstPyTorch
# GRAPHRUN_TESTS of these tests: random tests draw fewer cases under the emulator, and each op is run with a third of its
# dtypes (thorough: all dtypes, and more cases).
ARM64_TESTS = emulated
# The number of random loops of package vector on the newest processor.
ARM64_LOOPS = 500
ARM64_SLOW = ^($(ARM64_SLOW_BASE)|$(ARM64_SLOW_CODE)|$(ARM64_SLOW_KERNELS))$$
QEMU ?= $$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
arm64: fused
	@set -e; qemu=$(QEMU); \
	if [ -z "$$qemu" ]; then echo "arm64: tests on an emulated arm64 are left out: qemu-user is not installed"; exit 0; fi; \
	dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	try() { echo "arm64: $$1 on $$2"; (cd "$$1"; shift; cpu=$$1; shift; \
		GOGC=400 GRAPHRUN_TESTS=$(ARM64_TESTS) "$$qemu" -cpu "$$cpu" "$$program" -test.skip '$(ARM64_SLOW)' "$$@"); }; \
	for package in $(ARM64); do \
		program="$$dir/test"; \
		CGO_ENABLED=0 GOGC=800 GOOS=linux GOARCH=arm64 $(GO) test -c -trimpath -vet=off -ldflags=-s -o "$$program" "./$$package"; \
		case $$package in kernels/internal/conv) \
			try $$package max -test.run '^TestConvBytes$$'; \
			try $$package neoverse-n1 -test.run '^TestConvBytes'; continue ;; \
		internal/endtoend) try $$package max -test.run '$(ARM64_GRAPHS)'; continue ;; esac; \
		export GRAPHRUN_LOOPS=$(ARM64_LOOPS); try $$package max; \
		case " $(ARM64_GENERATORS) " in *" $$package "*) export GRAPHRUN_LOOPS=200; \
			for cpu in neoverse-n1 cortex-a72; do try $$package $$cpu -test.run '^TestRandom'; done ;; esac; \
		case " $(ARM64_PORTABLE) " in *" $$package "*) \
			( export GRAPHRUN_TARGET=portable; try $$package max -test.run '^TestResults$$' ) ;; esac; \
	done

loops:
	GRAPHRUN_LOOPS=$(LOOPS) $(TEST) -count=1 -run '^TestRandomLoops$$' -timeout 60m -v ./internal/jit/vector

# Three paths: all that the processor supports (GRAPHRUN_JIT=on), without AVX-512, and without machine code and assembly.
# A process uses one core, so the paths run at the same time. The target extreme-narrow has no default path: make test
# draws a few calls of every op on it.
extreme extreme-narrow:
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) test -c -ldflags=-s -o "$$dir/extreme" ./kernels/internal/extreme || exit 1; \
	cd kernels/internal/extreme; failed=0; running=; \
	for path in $(if $(filter extreme,$@),GRAPHRUN_JIT=on) GODEBUG=cpu.avx512f=off GRAPHRUN_TARGET=portable; do \
		env GOGC=400 $$path GRAPHRUN_EXTREME=$(EXTREME) GRAPHRUN_EXTREME_SEED=$(EXTREMESEED) \
			"$$dir/extreme" -test.run '^TestExtremeSoak$$' -test.timeout 0 -test.v >"$$dir/$$path" 2>&1 & \
		running="$$running $$path:$$!"; \
	done; \
	for one in $$running; do \
		wait $${one##*:} || failed=1; echo "== $${one%:*}"; cat "$$dir/$${one%:*}"; \
	done; exit $$failed

# Platforms for which everything is compiled and the command is linked. A platform takes minutes of CPU time, because it
# needs its own standard library and dependencies: target thorough has one with 32 bits, one for arm64, and one for each
# other system that is released.
PLATFORMS =

# Platforms for which packages and tests are type-checked only, which takes an eighth of the time; noasm is a build tag.
CHECKED = linux/amd64,noasm linux/arm64 linux/386 darwin/arm64 windows/amd64 wasip1/wasm

# The builds for platforms other than this one; the results are not run. All packages are compiled, and only the command
# is linked: go build ./... would link nine programs. Without optimizations, inlining, debug information, and checks of
# indices and nil, a compilation takes half the time. Vet checks the packages that have files for other platforms.
FAST = -gcflags=all='-N -l -B -d=nil=0 -dwarf=false'
# Two platforms at a time: at its end a build waits for one package after the other.
BUILD = set -e; export GOGC=800 CGO_ENABLED=0 GOOS=$${1%/*} GOARCH=$${1\#*/}; echo "build $$1"; \
	$(GO) list -export $(FAST) ./... >/dev/null; \
	$(GO) build $(FAST) -ldflags='-s -w' -o /dev/null ./cmd/graphrun; \
	$(GO) vet $(FAST) $$($(GO) list -f '{{if .IgnoredGoFiles}}{{.ImportPath}}{{end}}' ./...)
builds:
	printf '%s\n' $(PLATFORMS) | xargs -r -n 1 -P 2 sh -c '$(subst ','\'',$(BUILD))' sh
	@set -ex; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; $(GO) build -o "$$dir/typecheck" ./scripts/typecheck; \
	export GOGC=400; "$$dir/typecheck" $(CHECKED); cd beam; "$$dir/typecheck" linux/amd64

# Builds the command for linux/arm64, with optimizations, and lists its fused multiply-adds: there must be none, because
# they round differently from amd64.
fused:
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; export CGO_ENABLED=0 GOGC=800; echo "build linux/arm64"; \
	GOOS=linux GOARCH=arm64 $(GO) build -trimpath -o "$$dir/graphrun" ./cmd/graphrun; \
	$(GO) run ./scripts/fused "$$dir/graphrun"

# The released form of the command: static, without symbols and paths. GOOS and GOARCH select another platform.
RELEASE ?= graphrun$$($(GO) env GOEXE)
release:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o "$(RELEASE)" ./cmd/graphrun

# The released commands of all platforms in the folder DIST, and their checksums. The same commit, built with the same
# version of Go, gives the same bytes in any folder.
DIST ?= dist
RELEASED = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
releases:
	@set -e; mkdir -p "$(DIST)"; names=; for platform in $(RELEASED); do \
		os=$${platform%/*} arch=$${platform#*/}; \
		name=graphrun-$$os-$$arch; if [ $$os = windows ]; then name=$$name.exe; fi; names="$$names $$name"; \
		GOOS=$$os GOARCH=$$arch $(MAKE) --no-print-directory release RELEASE="$(DIST)/$$name"; \
	done; cd "$(DIST)"; sha256sum $$names | tee SHA256SUMS

format:
	@out=$$(gofmt -l .); test -z "$$out" || { echo "gofmt:"; echo "$$out"; exit 1; }

vet:
	GOGC=400 $(GO) vet ./...

# Staticcheck of the code, or with CODE= of tests too, which takes twice the time. With less frequent garbage collection
# it is 30 % faster and uses 1.2 GB.
CODE = -tests=false
staticcheck:
	GOGC=1000 $(STATICCHECK) $(CODE) ./...

# The transforms of the nested module beam on the direct runner, which needs a third of the packages that Prism needs.
beam:
	cd beam && $(TEST) -vet=off -tags direct ./inference

# All of module beam on Prism: 600 packages, 0.9 GB of the module cache and five minutes of CPU time.
beam-prism:
	cd beam && $(TEST) -vet=all ./... && GOGC=400 $(STATICCHECK) ./...

# With all checks of go vet. The other paths have the same files, except for builds without assembly.
test:
	$(TEST) -vet=all ./...

race:
	$(TEST) -race -vet=off -skip '$(SEQUENTIAL)' $(CONCURRENT)

# Generated files: marked sources, and the weights of the example graphs.
GENERATED = { grep -rlE '^// Code generated .* DO NOT EDIT' --include='*.go' --include='*.s' . ; ls examples/models/*.npz; } | sort

# It writes files that the other checks read, so it runs after them. It compares checksums instead of asking git, so that
# it works with uncommitted changes.
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

# Compares equal plans 200 times, and fails if more than 5 in 100 comparisons find a difference: a few minutes.
false-alarms:
	$(GO) test ./experiment -run '^$$' -bench EqualPlans -benchtime 200x -cpu 1

# Output for benchstat.
bench:
	$(GO) test ./... -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -count $(COUNT)
