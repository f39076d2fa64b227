package main

import (
	"context"
	"fmt"
	"slices"
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
	keep     bool      // what the last run made
	observed observer
	profile  *profile
	trace    *chromeTrace
	out      map[string]*tensor.Tensor
}

// once runs the program, keeps what it gives if that is wanted, and notes the time if it is
// measured.
func (r *runner) once(ctx context.Context, measured bool) error {
	start := time.Now()
	out, err := r.program.Run(ctx, r.in)
	if err != nil {
		return err
	}
	if measured {
		r.times = append(r.times, float64(time.Since(start)))
	}
	if r.keep {
		r.out = out
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

// measure warms up and measures all runners in turns. When ctx ends, it ends without an
// error: what was measured until then is there.
func measure(ctx context.Context, all []*runner, enough until, report func(done, total int)) error {
	start := time.Now()
	for i := 0; i < warmUps || !enough.over(i-warmUps, time.Since(start)); i++ {
		if i == warmUps {
			start = time.Now()
		}
		report(i, enough.total())
		for _, r := range all {
			if ctx.Err() != nil {
				return nil
			}
			err := r.once(ctx, i >= warmUps)
			if err == nil && r.profiles(i) {
				err = r.look(ctx, r.profile)
			}
			switch {
			case err == nil || ctx.Err() != nil:
			case len(all) > 1:
				return fmt.Errorf("%w (strategy %s)", err, r.strategy)
			default:
				return err
			}
		}
	}
	return nil
}

// profileEvery is how many runs are measured for each that is profiled.
const profileEvery = 4

// profiles reports whether a run is profiled after run i.
func (r *runner) profiles(i int) bool {
	return r.profile != nil && i >= warmUps && (i-warmUps)%profileEvery == 0 && !r.profile.full()
}

// spread sums up measured times.
type spread struct {
	Runs   int      `json:"runs" doc:"How many runs were measured."`
	Median *float64 `json:"median_ns" doc:"The median time of a run, in nanoseconds; null where none was measured."`
	Min    *float64 `json:"min_ns" doc:"The least time, in nanoseconds; null where none was measured."`
	P10    *float64 `json:"p10_ns" doc:"The time that a tenth of the runs stay below; null where none was measured."`
	P90    *float64 `json:"p90_ns" doc:"The time that a tenth of the runs exceed; null where none was measured."`
	Max    *float64 `json:"max_ns" doc:"The greatest time, in nanoseconds; null where none was measured."`
}

func (r *runner) spread() spread {
	t := slices.Sorted(slices.Values(r.times))
	if len(t) == 0 {
		return spread{}
	}
	at := func(q float64) *float64 { ns := quantile(t, q); return &ns }
	return spread{len(t), at(0.5), at(0), at(0.1), at(0.9), at(1)}
}

// quantile interpolates between the sorted values that are around the place q.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
