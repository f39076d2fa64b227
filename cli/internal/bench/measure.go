package bench

import (
	"context"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/tensor"
)

// warmUps is the number of runs before the measured ones.
const warmUps = 2

// way is a call of a program and the use of its results.
type way int

const (
	byRun     way = iota // the results are dropped
	byRelease            // Run, whose results are released
	byRunInto
	ways
)

// String names the way as tables do.
func (w way) String() string { return [...]string{"Run", "Run, Release", "RunInto"}[w] }

// runner runs one program again and again and keeps the times.
type runner struct {
	strategy string
	program  *graphrun.Program
	in, out  map[string]*tensor.Tensor
	times    [ways][]float64 // ns
	observed observer
	profile  *profile
	trace    *chromeTrace
}

// once runs the program, and notes the time if it is measured.
func (r *runner) once(ctx context.Context, how way, measured bool) error {
	start := time.Now()
	var out map[string]*tensor.Tensor
	var err error
	if how == byRunInto {
		err = r.program.RunInto(ctx, r.in, r.out)
	} else {
		out, err = r.program.Run(ctx, r.in)
	}
	if err != nil {
		return err
	}
	if how == byRelease {
		for _, t := range out {
			if t.Storage().Releasable() {
				_ = t.Release()
			}
		}
	}
	if measured {
		r.times[how] = append(r.times[how], float64(time.Since(start)))
	}
	if r.out == nil {
		r.out = make(map[string]*tensor.Tensor, len(out))
		for name, t := range out {
			m := t.Meta
			if m.Offset = 0; m.OverlapsItself() { // RunInto refuses such a tensor
				m = tensor.New(m.DType, m.Shape...)
			}
			r.out[name] = tensor.Empty(m)
		}
	}
	return nil
}

// look makes an extra run under a tracer. When ctx ends, there is no error.
func (r *runner) look(ctx context.Context, how way, by exec.Tracer) error {
	r.observed.Tracer = by
	err := r.once(ctx, how, false)
	r.observed.Tracer = nil
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// until is how long is measured.
type until struct {
	runs int
	span time.Duration // if set, in place of runs
}

// over reports whether enough was measured.
func (u until) over(runs int, took time.Duration) bool {
	if u.span > 0 {
		return runs > 0 && took >= u.span
	}
	return runs >= u.runs
}

// total is the number of runs, warm-up included; 0 where nobody knows it.
func (u until) total() int {
	if u.span > 0 {
		return 0
	}
	return int(ways) * u.runs
}

// turnRuns is the number of consecutive runs that are measured of each way. One unmeasured run comes first: it leaves
// the caches as a run of this way does.
const turnRuns = 10

// measure warms up and measures the ways in alternation. When ctx ends, it returns nil and keeps the times so far.
func (r *runner) measure(ctx context.Context, enough until, report func(done, total int)) error {
	for range warmUps - 1 {
		if err := r.warm(ctx, byRun); err != nil || ctx.Err() != nil {
			return err
		}
	}
	start, done := time.Now(), 0
	for {
		for how := range ways {
			if err := r.warm(ctx, how); err != nil {
				return err
			}
			for range turnRuns {
				report(done, enough.total())
				if ctx.Err() != nil {
					return nil
				}
				if enough.over(len(r.times[how]), time.Since(start)) {
					break
				}
				if err := r.measureOne(ctx, how); err != nil {
					return err
				}
				done++
			}
		}
		if enough.over(len(r.times[byRunInto]), time.Since(start)) {
			return nil
		}
	}
}

// warm makes an unmeasured run.
func (r *runner) warm(ctx context.Context, how way) error {
	if err := r.once(ctx, how, false); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// measureOne makes a measured run and, after some of them, a profiled one.
func (r *runner) measureOne(ctx context.Context, how way) error {
	err := r.once(ctx, how, true)
	if err == nil && how == byRunInto && r.profiles(len(r.times[how])-1) {
		err = r.look(ctx, how, r.profile)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// profileEvery is how many runs are measured for each of the first that are profiled, and profileFirst how many those
// are; profileRarely, for each of those that follow: a run that comes after a profiled one finds less in caches.
const (
	profileEvery  = 4
	profileFirst  = 16
	profileRarely = 64
)

// profiles reports whether a run is profiled after measured run i.
func (r *runner) profiles(i int) bool {
	if r.profile == nil || r.profile.full() {
		return false
	}
	if i < profileEvery*profileFirst {
		return i%profileEvery == 0
	}
	return i%profileRarely == 0
}
