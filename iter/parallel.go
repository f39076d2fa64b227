package iter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/internal/workerpool"
)

// Parallel walks the whole iteration in tasks of grain elements (for_each). A grain of 0 means [GrainSize]. It uses at
// most the given number of worker goroutines; 0 means all cores. Tasks depend only on shape and grain, so a loop that
// does not accumulate into its outputs gives the same bits for any number of workers. The first error, or the end of
// the context, ends the walk. No goroutine runs after Parallel returns.
//
// Parallel is as unsafe as [Iterator.ForEach], and makes the same checks. It fails for a reduction, in which several
// tasks would write to the same outputs. [Iterator.Reduce] runs reductions in parallel.
func (it *Iterator) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: a nil Loop")
	case it.IsReduction():
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

// maxParts bounds the number of parts into which tasks are divided, and thereby the memory of a run. If there are more
// workers, some share a part.
const maxParts = 256

// forTasks runs tasks 0 to n-1 on at most workers goroutines, including the caller's.
func forTasks(ctx context.Context, n, workers int, f func(c *Cursor, task int) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	t := &tasks{ctx: ctx, n: n, f: f, run: n>>31 + 1}
	workers = min(workersOf(workers), n)
	t.parts = make(workerpool.Parts, min(max(workers, 1), maxParts))
	t.parts.Deal((n + t.run - 1) / t.run)
	if workers <= 1 {
		return t.work()
	}
	t.lead(workers - 1)
	switch p := t.raised.Load(); {
	case p != nil:
		panic(p)
	case t.goexited.Load():
		runtime.Goexit() // as with one worker: the results are incomplete
	}
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

// tasks is a run of the tasks of a walk. The tasks are divided into contiguous parts, one for each worker, and a worker
// without tasks steals from another part.
type tasks struct {
	ctx context.Context
	n   int
	f   func(c *Cursor, task int) error

	run      int // number of consecutive tasks that a worker takes at once; 1 for fewer than 2^31 tasks
	parts    workerpool.Parts
	mu       workerpool.Lock
	started  atomic.Int32          // workers that have started
	stopped  atomic.Bool           // no further tasks are started
	err      atomic.Pointer[error] // the first error
	raised   atomic.Pointer[raisedPanic]
	goexited atomic.Bool // a function of the caller called runtime.Goexit
}

// lead runs the tasks with helpers from the worker pool, and returns when all are done.
func (t *tasks) lead(hands int) {
	j := workerpool.Job{Help: t.workCatchingPanic}
	j.Begin()
	defer j.End()
	j.Call(hands, workerpool.Much)
	t.workCatchingPanic()
}

// workCatchingPanic calls work and keeps a panic for the caller.
func (t *tasks) workCatchingPanic() {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			t.raised.CompareAndSwap(nil, &raisedPanic{v, debug.Stack()})
		} else if !returned {
			t.goexited.Store(true)
		}
		if !returned {
			t.stopped.Store(true)
		}
	}()
	if err := t.work(); err != nil {
		t.err.CompareAndSwap(nil, &err)
		t.stopped.Store(true)
	}
	returned = true
}

// work runs tasks until none are left or one fails.
func (t *tasks) work() error {
	var c Cursor
	own := int(t.started.Add(1)-1) % len(t.parts)
	for {
		k := t.parts.Next(own)
		if k < 0 {
			t.mu.Lock()
			k = t.parts.Steal(own)
			t.mu.Unlock()
		}
		if k < 0 {
			return nil
		}
		for i := k * t.run; i < min(t.n, (k+1)*t.run); i++ {
			switch {
			case t.stopped.Load():
				return nil
			case t.ctx.Err() != nil:
				return context.Cause(t.ctx)
			}
			if err := t.f(&c, i); err != nil {
				return err
			}
		}
	}
}

// raisedPanic is the panic of a caller's function in a worker goroutine. It is raised again in the caller's goroutine,
// where it can be recovered. Otherwise a division by zero in a kernel would end the process.
type raisedPanic struct {
	value any
	stack []byte
}

// Error returns the value and the stack of the panic.
func (p *raisedPanic) Error() string { return fmt.Sprintf("%v\n\n%s", p.value, p.stack) }

// Unwrap returns the value if it is an error.
func (p *raisedPanic) Unwrap() error {
	err, _ := p.value.(error)
	return err
}
