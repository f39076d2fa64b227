package iter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"
)

// Parallel walks the whole iteration with at most workers goroutines, 0 for all cores, in
// tasks of grain elements, 0 for [GrainSize] (for_each). The tasks depend on shape and
// grain alone, so that a loop whose outputs are not accumulated gives the same bits for any
// number of workers. The first error, or the context's cause, ends the walk; no goroutine
// outlives it.
//
// It is unsafe, and checks as much, as [Iterator.ForEach]. A reduction is refused: its
// outputs would be written by several tasks. See [Iterator.Reduce].
func (it *Iterator) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: a nil Loop")
	case it.flags.reduction:
		return errors.New("iter: a reduction cannot be walked in parallel tasks; run it by a Fold (Reduce)")
	}
	if err := it.checkWalk(ptrs, it.All()); err != nil {
		return err
	}
	return it.tasks(ctx, grain, workers, func(c *Cursor, r Range) error { return it.ForRange(c, ptrs, r, loop) })
}

func (it *Iterator) tasks(ctx context.Context, grain, workers int, f func(*Cursor, Range) error) error {
	return forTasks(ctx, it.Chunks(grain), workers, func(c *Cursor, task int) error { return f(c, it.Chunk(task, grain)) })
}

// forTasks runs tasks 0 to n-1 on at most workers goroutines; a single one is this one.
func forTasks(ctx context.Context, n, workers int, f func(c *Cursor, task int) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
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
	if workers = min(workersOf(workers), n); workers <= 1 {
		return work(ctx)
	}
	var raised atomic.Pointer[raisedPanic]
	var ended atomic.Bool // a function of the caller's ended its goroutine
	g, ctx := errgroup.WithContext(ctx)
	for range workers {
		g.Go(func() (err error) {
			returned := false
			defer func() {
				if v := recover(); v != nil {
					p := &raisedPanic{v, debug.Stack()}
					raised.CompareAndSwap(nil, p)
					err = p
				} else if !returned {
					ended.Store(true)
				}
			}()
			err = work(ctx)
			returned = true
			return err
		})
	}
	err := g.Wait()
	if p := raised.Load(); p != nil {
		panic(p)
	}
	if ended.Load() {
		runtime.Goexit() // as it would with one worker: what was computed is not whole
	}
	return err
}

// raisedPanic is what a function of the caller's panicked with on a goroutine of ours. It is
// raised again on the caller's own, where it can be recovered: a division by zero in a
// kernel must not end a server.
type raisedPanic struct {
	value any
	stack []byte
}

// Error tells the value and where it was raised.
func (p *raisedPanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *raisedPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
