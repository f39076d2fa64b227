package bench

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/internal/environment"
	"github.com/graphrun/graphrun/tensor"
)

// warmUps is the number of runs before the measured runs.
const warmUps = 2

// callMethod is a method to call a program. The methods differ in the allocation of results.
type callMethod int

const (
	methodRun        callMethod = iota // Program.Run; the garbage collector frees the results
	methodRunRelease                   // Program.Run; the results are released
	methodRunInto                      // Program.RunInto with existing tensors
	numMethods
)

// String returns the name of the method in tables.
func (m callMethod) String() string { return [...]string{"Run", "Run, Release", "RunInto"}[m] }

// runner runs a program repeatedly and records the times.
type runner struct {
	strategy string
	program  *graphrun.Program
	in, out  map[string]*tensor.Tensor // the inputs, and the tensors that RunInto writes
	times    [numMethods][]float64     // times of the measured runs in nanoseconds
	observer observer                  // the tracer of the program
	profile  *profile                  // nil without --profile and --report
	trace    *chromeTrace              // nil without --trace and --report
	load     environment.LoadMeter     // sampled before each block of runs
}

// Each call method is measured in blocks of consecutive runs. A block has at least blockRuns runs and takes at least
// blockTime, if the measurement is long enough. An unmeasured run of the same method precedes each block, so that the
// caches have its data.
const (
	blockRuns = 10
	blockTime = 100 * time.Millisecond
)

// measure makes warm-up runs and then measures the call methods in alternation. It calls report before each measured
// run. If ctx ends, it returns nil; r.times has the times so far.
func (r *runner) measure(ctx context.Context, stop stopCondition, report func(done, total int)) error {
	for range warmUps - 1 { // the first block begins with another warm-up run
		if err := r.runWarmup(ctx, methodRun); err != nil || ctx.Err() != nil {
			return err
		}
	}
	start := time.Now()
	allocatedAtCollection := uint64(0) // allocated bytes at the last collection
	for {
		for method := range numMethods {
			// Free the results of Run now. Otherwise Go's runtime would free the results during the runs of the next method, and
			// slow down these runs. In measurements, one collection slowed down short runs on one worker for 20 ms. Before
			// methodRun, there is nothing to free, because methodRunInto allocates no results.
			if method > methodRun && allocatedBytes()-allocatedAtCollection > minGarbageBytes {
				debug.FreeOSMemory()
				allocatedAtCollection = allocatedBytes()
			}
			if err := r.measureBlock(ctx, method, start, stop, report); err != nil || ctx.Err() != nil {
				return err
			}
		}
		if stop.isOver(len(r.times[methodRunInto]), time.Since(start)) {
			return nil
		}
	}
}

// measureBlock measures a block of runs of one method. start is the start of the whole measurement, which may end
// within the block.
func (r *runner) measureBlock(ctx context.Context, method callMethod, start time.Time, stop stopCondition,
	report func(done, total int)) error {
	r.load.Sample()
	if err := r.runWarmup(ctx, method); err != nil {
		return err
	}
	blockStart := time.Now()
	for runs := 0; runs < blockRuns || time.Since(blockStart) < stop.minBlockTime(); runs++ {
		done := 0
		for _, times := range r.times {
			done += len(times)
		}
		report(done, stop.total())
		if ctx.Err() != nil || stop.isOver(len(r.times[method]), time.Since(start)) {
			return nil
		}
		if err := r.measureOne(ctx, method); err != nil {
			return err
		}
	}
	return nil
}

// minGarbageBytes is a limit of the bytes allocated since the last collection. Above the limit, measure collects
// garbage before the runs of another method. Below the limit, a collection during these runs is rare, because Go's
// runtime collects after 4 MiB at the earliest.
const minGarbageBytes = 1 << 20

// allocatedBytes returns the number of bytes that the process has allocated on the heap since its start.
func allocatedBytes() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}

// runWarmup makes an unmeasured run. If ctx ends, it returns nil.
func (r *runner) runWarmup(ctx context.Context, method callMethod) error {
	const measured = false
	if err := r.runOnce(ctx, method, measured); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// measureOne makes a measured run. If isProfileDue returns true, it also makes a profiled run. If ctx ends, it returns
// nil.
func (r *runner) measureOne(ctx context.Context, method callMethod) error {
	const measured = true
	err := r.runOnce(ctx, method, measured)
	if err == nil && method == methodRunInto && r.isProfileDue(len(r.times[method])-1) {
		err = r.runTraced(ctx, method, r.profile)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A profiled run follows every profileEvery-th measured run. After profileFirst profiled runs, it follows only every
// profileRarely-th measured run, because a profiled run leaves colder caches for the next measured run.
const (
	profileEvery  = 4
	profileFirst  = 16
	profileRarely = 64
)

// isProfileDue reports whether a profiled run follows measured run i.
func (r *runner) isProfileDue(i int) bool {
	if r.profile == nil || r.profile.isComplete() {
		return false
	}
	if i < profileEvery*profileFirst {
		return i%profileEvery == 0
	}
	return i%profileRarely == 0
}

// stopCondition is the condition that ends a measurement: a number of runs of each callMethod, or a time.
type stopCondition struct {
	runs     int           // ignored if duration is not 0
	duration time.Duration // 0 means that the number of runs ends the measurement
}

// isOver reports whether the measurement ends after the given number of runs of each callMethod and the given time.
func (c stopCondition) isOver(runs int, took time.Duration) bool {
	if c.duration > 0 {
		return runs > 0 && took >= c.duration
	}
	return runs >= c.runs
}

// total returns the number of measured runs, or 0 if the number is unknown.
func (c stopCondition) total() int {
	if c.duration > 0 {
		return 0
	}
	return int(numMethods) * c.runs
}

// minBlockTime returns the minimum time of a block. It is blockTime, but short measurements have shorter blocks, so
// that each method gets at least two blocks.
func (c stopCondition) minBlockTime() time.Duration {
	if c.duration > 0 {
		return min(blockTime, c.duration/(2*time.Duration(numMethods)))
	}
	return blockTime
}

// runOnce runs the program. It records the time if measured is true.
func (r *runner) runOnce(ctx context.Context, method callMethod, measured bool) error {
	start := time.Now()
	var out map[string]*tensor.Tensor
	var err error
	if method == methodRunInto {
		err = r.program.RunInto(ctx, r.in, r.out)
	} else {
		out, err = r.program.Run(ctx, r.in)
	}
	if err != nil {
		return err
	}
	if method == methodRunRelease {
		for _, t := range out {
			if t.Storage().Releasable() {
				_ = t.Release()
			}
		}
	}
	if measured {
		r.times[method] = append(r.times[method], float64(time.Since(start)))
	}
	if r.out == nil { // the first run, which never uses RunInto
		r.out = emptyLike(out)
		for _, c := range r.program.Caches() {
			delete(r.out, c.Output) // RunInto writes it to the memory of the input
		}
	}
	return nil
}

// emptyLike returns tensors that RunInto can write. They have the layouts of the given results. If elements of a result
// share memory, the new tensor is row-major.
func emptyLike(results map[string]*tensor.Tensor) map[string]*tensor.Tensor {
	out := make(map[string]*tensor.Tensor, len(results))
	for name, t := range results {
		meta := t.Meta
		meta.Offset = 0
		if meta.OverlapsItself() {
			meta = tensor.New(meta.DType, meta.Shape...)
		}
		out[name] = tensor.Empty(meta)
	}
	return out
}

// runTraced makes an unmeasured run with a tracer. If ctx ends, it returns nil.
func (r *runner) runTraced(ctx context.Context, method callMethod, tracer exec.Tracer) error {
	const measured = false
	r.observer.Tracer = tracer
	err := r.runOnce(ctx, method, measured)
	r.observer.Tracer = nil
	if ctx.Err() != nil {
		return nil
	}
	return err
}
