package iter

import (
	"context"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
)

// Parallel walks the whole iteration with at most workers goroutines, in tasks of grain
// elements (0 means [GrainSize]). The tasks depend on shape and grain alone, so that a
// loop whose outputs are not accumulated gives the same bits for any number of workers.
// The first error, or the context's cause, ends the walk; no goroutine outlives it.
//
// Reductions must not be walked this way: their outputs would be written by several
// tasks. See [Iterator.Reduce].
func (it *Iterator) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, loop Loop) error {
	return it.tasks(ctx, grain, workers, func(c *Cursor, r Range) error { return it.ForRange(c, ptrs, r, loop) })
}

// ParallelBlocks is [Iterator.Parallel] for a body over blocks.
func (it *Iterator) ParallelBlocks(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, body Body) error {
	return it.tasks(ctx, grain, workers, func(c *Cursor, r Range) error { return it.ForBlocks(c, ptrs, r, body) })
}

func (it *Iterator) tasks(ctx context.Context, grain, workers int, f func(*Cursor, Range) error) error {
	if it.flags.reduction {
		panic("iter: a reduction cannot be walked in parallel tasks")
	}
	if grain <= 0 {
		grain = GrainSize
	}
	return forTasks(ctx, it.Chunks(grain), workers, func(c *Cursor, task int) error { return f(c, it.Chunk(task, grain)) })
}

// forTasks runs tasks 0 to n-1 on at most workers goroutines, this one among them.
func forTasks(ctx context.Context, n, workers int, f func(c *Cursor, task int) error) error {
	var next atomic.Int64
	work := func(ctx context.Context) error {
		var c Cursor
		for {
			t := int(next.Add(1)) - 1
			if t >= n {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(&c, t); err != nil {
				return err
			}
		}
	}
	if workers = min(workers, n); workers <= 1 {
		return work(ctx)
	}
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() error { return work(ctx) })
	}
	return g.Wait()
}
