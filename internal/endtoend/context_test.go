package endtoend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/experiment"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt/interrupttest"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/tensor"
)

// someModels are graph files and models of the examples and of tests.
func someModels(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"../../examples/models/*.json"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		list = append(list, files...)
	}
	require.NotEmpty(t, list)
	return list
}

// sweep calls f with contexts that end at the n-th check, for n at growing distances up to the number of checks of a
// whole call.
func sweep(t *testing.T, f func(ctx context.Context) error) {
	t.Helper()
	all := interrupttest.EndAtCheck(0)
	require.NoError(t, f(all))
	require.Positive(t, all.Checks(), "it checks the context")
	for n := 1; n <= all.Checks(); n += 1 + n/3 {
		err := f(interrupttest.EndAtCheck(n))
		if err == nil && n > all.Checks()*9/10 {
			continue // another order of workers may check less often
		}
		require.ErrorIs(t, err, interrupttest.ErrEnded, "at check %d of %d", n, all.Checks())
		require.NotEqual(t, interrupttest.ErrEnded.Error(), err.Error(), "it has a place")
	}
}

// TestContextEnds checks that loading and compiling end at each check of the context, under all strategies, with the
// cause and a place, and leave nothing that affects another call.
func TestContextEnds(t *testing.T) {
	for _, path := range someModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			sweep(t, func(ctx context.Context) error {
				_, err := graphrun.Load(ctx, path)
				return err
			})
			g, err := graphrun.Load(ctx, path)
			require.NoError(t, err)
			for _, s := range graphrun.Strategies() {
				for _, keep := range []bool{false, true} {
					sweep(t, func(ctx context.Context) error {
						_, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: s, Threads: 2, KeepGoing: keep})
						return err
					})
				}
			}
		})
	}
}

// TestVerificationEnds checks that verifying a certificate ends at each check of the context, with the cause and a
// place.
func TestVerificationEnds(t *testing.T) {
	for _, path := range someModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g, err := graphrun.Load(ctx, path)
			require.NoError(t, err)
			p, err := graphrun.Compile(ctx, g, graphrun.Options{Strategy: graphrun.Optimal})
			require.NoError(t, err)
			c, err := experiment.Certify(p)
			require.NoError(t, err)
			sweep(t, func(ctx context.Context) error {
				_, err := experiment.Verify(ctx, g, c)
				return err
			})
			_, err = experiment.Verify(ctx, g, c)
			require.NoError(t, err)
		})
	}
}

// TestContextIsLetGo checks that a program does not depend on the context that it was compiled under.
func TestContextIsLetGo(t *testing.T) {
	for _, path := range someModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			g, err := graphrun.Load(ctx, path)
			require.NoError(t, err)
			p, err := graphrun.Compile(ctx, g, graphrun.Options{})
			require.NoError(t, err)
			cancel()
			_, err = graphrun.Compile(t.Context(), g, graphrun.Options{})
			require.NoError(t, err)
			in := map[string]*tensor.Tensor{}
			for _, v := range g.Inputs {
				in[v.Name] = tensor.Zeros(v.Meta.DType, v.Meta.Shape...)
			}
			_, err = p.Run(t.Context(), in)
			require.NoError(t, err)
			p.Report()
			if _, err := experiment.Problem(p); err == nil {
				_, err = experiment.Advise(p)
				require.NoError(t, err)
			}
			require.NoError(t, g.Infer())
		})
	}
}

// TestWaitersHaveTheirOwnContexts checks that a run that waits for the plan of another run ends with its own context,
// and that the end of the planner's context ends no other run.
func TestWaitersHaveTheirOwnContexts(t *testing.T) {
	begun, goOn := make(chan struct{}, 16), make(chan struct{}, 1)
	waiting := passes.Pass{Name: "waiting", Run: func(p *passes.Plan) error {
		begun <- struct{}{}
		select {
		case <-p.Graph.Context().Done():
			return errors.New("it was given up")
		case <-goOn:
			return nil
		}
	}}
	list, err := passes.Before(passes.Passes(), "layout", waiting)
	require.NoError(t, err)
	goOn <- struct{}{}
	p, err := graphrun.Compile(ctx, openGraph(t), graphrun.Options{Passes: list})
	require.NoError(t, err)
	<-begun
	in := map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, 5, 3)}
	run := func(ctx context.Context) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := p.Run(ctx, in)
			done <- err
		}()
		return done
	}
	why := errors.New("enough")
	first, end := context.WithCancelCause(t.Context())
	planner := run(first)
	<-begun
	second, endSecond := context.WithCancelCause(t.Context())
	impatient, patient := run(second), run(t.Context())
	endSecond(why)
	require.ErrorIs(t, <-impatient, why)
	end(why)
	require.ErrorIs(t, <-planner, why)
	<-begun // the patient one plans
	close(goOn)
	require.NoError(t, <-patient)
}

// openGraph is a graph whose first size is open.
func openGraph(t *testing.T) *graph.Graph {
	t.Helper()
	path := filepath.Join(t.TempDir(), "open.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"version": 1, "inputs": [{"name": "x", "dtype": "float32",
		"shape": ["N", 3]}], "nodes": [{"name": "s", "op": "softmax", "inputs": ["x"], "attrs": {"dim": 1}},
		{"name": "y", "op": "t", "inputs": ["s"]}], "outputs": ["y"]}`), 0o644))
	g, err := graphrun.Load(ctx, path)
	require.NoError(t, err)
	return g
}

// TestContextsOfRunsPlan checks that planning within a run ends with the context of the run at each check, and that the
// next run plans again.
func TestContextsOfRunsPlan(t *testing.T) {
	p, err := graphrun.Compile(ctx, openGraph(t), graphrun.Options{})
	require.NoError(t, err)
	n := 1
	sweep(t, func(ctx context.Context) error {
		n++ // another size each time
		_, err := p.Run(ctx, map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n, 3)})
		if err != nil {
			_, again := p.Run(t.Context(), map[string]*tensor.Tensor{"x": tensor.Zeros(tensor.Float32, n, 3)})
			require.NoError(t, again)
			return fmt.Errorf("run: %w", err)
		}
		return nil
	})
}

// TestNothingGoesOn checks that ended compiles leave no goroutine.
func TestNothingGoesOn(t *testing.T) {
	g, err := graphrun.Load(ctx, "../../examples/models/residual.json")
	require.NoError(t, err)
	before := runtime.NumGoroutine()
	var group sync.WaitGroup
	for n := 1; n < 400; n += 7 {
		group.Go(func() {
			_, err := graphrun.Compile(interrupttest.EndAtCheck(n), g, graphrun.Options{Threads: 2})
			if err != nil {
				assert.ErrorIs(t, err, interrupttest.ErrEnded)
			}
		})
	}
	group.Wait()
	for range 5000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("there were %d goroutines, there are %d", before, runtime.NumGoroutine())
}

// TestContextTimes prints how long loading and compiling of models take to end after their context has: of the models
// that GRAPHRUN_CONTEXT_MODELS lists, separated by commas.
func TestContextTimes(t *testing.T) {
	list := os.Getenv("GRAPHRUN_CONTEXT_MODELS")
	if list == "" {
		t.Skip("GRAPHRUN_CONTEXT_MODELS is not set")
	}
	limits := []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond}
	t.Logf("| model | load, ms | ends after 1, 10, 100 ms | compile, ms | ends after 1, 10, 100 ms |")
	for _, path := range strings.Split(list, ",") {
		var g *graph.Graph
		whole := func(f func(ctx context.Context) error) (ms []string) {
			begin := time.Now()
			require.NoError(t, f(t.Context()))
			ms = append(ms, fmt.Sprintf("%.0f", time.Since(begin).Seconds()*1000))
			var each []string
			for _, limit := range limits {
				var late []time.Duration
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					begin := time.Now()
					err := f(ctx)
					took := time.Since(begin)
					cancel()
					if err != nil {
						require.ErrorIs(t, err, context.DeadlineExceeded)
					}
					late = append(late, took-limit)
				}
				each = append(each, fmt.Sprintf("%+.1f", slices.Max(late).Seconds()*1000))
			}
			return append(ms, strings.Join(each, ", "))
		}
		loads := whole(func(ctx context.Context) (err error) {
			h, err := graphrun.Load(ctx, path)
			if err == nil {
				g = h
			}
			return err
		})
		compiles := whole(func(ctx context.Context) error {
			_, err := graphrun.Compile(ctx, g.Clone(), graphrun.Options{})
			return err
		})
		t.Logf("| %s | %s |", path, strings.Join(append(loads, compiles...), " | "))
	}
}
