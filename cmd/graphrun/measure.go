package main

import (
	"context"
	"time"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/tensor"
)

// warmUps is the number of runs before the measured ones.
const warmUps = 2

// runner runs one program again and again and keeps the times.
type runner struct {
	strategy string
	program  *graphrun.Program
	in       map[string]*tensor.Tensor
	times    []float64 // ns
	observed observer
	profile  *profile
	trace    *chromeTrace
}

// once runs the program, and notes the time if it is measured.
func (r *runner) once(ctx context.Context, measured bool) error {
	start := time.Now()
	if _, err := r.program.Run(ctx, r.in); err != nil {
		return err
	}
	if measured {
		r.times = append(r.times, float64(time.Since(start)))
	}
	return nil
}

// look has one more run looked at. When ctx ends, there is no error.
func (r *runner) look(ctx context.Context, by exec.Tracer) error {
	r.observed.Tracer = by
	err := r.once(ctx, false)
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
	return warmUps + u.runs
}

// measure warms up and measures. When ctx ends, it ends without an error: what was measured until then is there.
func (r *runner) measure(ctx context.Context, enough until, report func(done, total int)) error {
	start := time.Now()
	for i := 0; i < warmUps || !enough.over(i-warmUps, time.Since(start)); i++ {
		if i == warmUps {
			start = time.Now()
		}
		report(i, enough.total())
		if ctx.Err() != nil {
			return nil
		}
		err := r.once(ctx, i >= warmUps)
		if err == nil && r.profiles(i) {
			err = r.look(ctx, r.profile)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// profileEvery is how many runs are measured for each of the first that are profiled, and profileFirst how many those
// are; profileRarely, for each of those that follow: a run that comes after a profiled one finds less in caches.
const (
	profileEvery  = 4
	profileFirst  = 16
	profileRarely = 64
)

// profiles reports whether a run is profiled after run i.
func (r *runner) profiles(i int) bool {
	if r.profile == nil || i < warmUps || r.profile.full() {
		return false
	}
	if i -= warmUps; i < profileEvery*profileFirst {
		return i%profileEvery == 0
	}
	return i%profileRarely == 0
}
