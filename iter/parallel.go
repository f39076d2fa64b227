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

// Parallel walks the whole iteration in tasks of grain elements (TensorIterator's for_each). A grain of 0 means
// [GrainSize]. It uses at most the given number of worker goroutines; 0 means all cores. Tasks depend only on shape and
// grain. A loop that does not accumulate into its outputs therefore gives the same bits for any number of workers. The
// first error, or the end of the context, ends the walk. No goroutine runs after Parallel returns.
//
// Parallel is as unsafe as [Iterator.ForEach], and makes the same checks. It fails for a reduction, in which several
// tasks would write to the same outputs. [Iterator.Reduce] runs reductions in parallel.
func (it *Iterator) Parallel(ctx context.Context, ptrs []unsafe.Pointer, grain, workers int, loop Loop) error {
	switch {
	case it == nil:
		return errNilIterator
	case loop == nil:
		return errors.New("iter: the Loop is nil")
	case it.IsReduction():
		return errors.New("iter: a reduction cannot be walked in parallel tasks; run it by a Fold (Reduce)")
	}
	if err := it.checkWalk(ptrs, it.All()); err != nil {
		return err
	}
	return it.forEachChunk(ctx, grain, workers, func(c *Cursor, r Range) error { return it.ForRange(c, ptrs, r, loop) })
}

// forEachChunk calls f for each range of [Iterator.Chunks].
func (it *Iterator) forEachChunk(ctx context.Context, grain, workers int, f func(*Cursor, Range) error) error {
	return forTasks(ctx, it.Chunks(grain), workers, func(c *Cursor, task int) error { return f(c, it.Chunk(task, grain)) })
}

// maxParts is the maximum number of parts into which the tasks of a run are divided. It bounds the memory of the run.
// If there are more workers than parts, some workers share a part.
const maxParts = 256

// forTasks runs tasks 0 to count-1 on at most workers goroutines, including the caller's.
func forTasks(ctx context.Context, count, workers int, run func(c *Cursor, task int) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	queue := &tasks{ctx: ctx, count: count, runTask: run, groupSize: count>>31 + 1}
	workers = min(workersOf(workers), count) // workersOf replaces 0 by the number of cores
	queue.parts = make(workerpool.Parts, min(max(workers, 1), maxParts))
	queue.parts.Distribute((count + queue.groupSize - 1) / queue.groupSize)
	if workers <= 1 {
		return queue.work()
	}
	queue.runWithHelpers(workers - 1)
	switch p := queue.panicked.Load(); {
	case p != nil:
		panic(p)
	case queue.goexited.Load():
		// A task has called Goexit, so the results are incomplete and the caller must end, too. With one worker, Goexit
		// in the task has this effect.
		runtime.Goexit()
	}
	if err := queue.err.Load(); err != nil {
		return *err
	}
	return nil
}

// tasks is one parallel run of numbered tasks. The tasks are divided into contiguous parts, one for each worker. A
// worker whose part is finished steals from another part.
type tasks struct {
	ctx     context.Context
	count   int                             // number of tasks
	runTask func(c *Cursor, task int) error // runs one task

	groupSize int                         // number of consecutive tasks taken at once
	parts     workerpool.Parts            // the tasks that have not started, in at most 2^31 groups of groupSize tasks
	mu        workerpool.Lock             // guards stealing
	started   atomic.Int32                // number of workers that have started
	stopped   atomic.Bool                 // no further tasks are started
	err       atomic.Pointer[error]       // the first error
	panicked  atomic.Pointer[raisedPanic] // the first panic
	goexited  atomic.Bool                 // a task called runtime.Goexit
}

// runWithHelpers runs the tasks with helpers from the worker pool, and returns when all tasks are done.
func (t *tasks) runWithHelpers(helpers int) {
	job := workerpool.Job{Help: t.workCatchingPanic}
	job.Begin()
	defer job.End()
	job.RequestWorkers(helpers, workerpool.StartAlways) // starts goroutines if too few of the pool are awake
	t.workCatchingPanic()
}

// workCatchingPanic calls work and records its error, panic or Goexit.
func (t *tasks) workCatchingPanic() {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			t.panicked.CompareAndSwap(nil, &raisedPanic{v, debug.Stack()})
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
	var cursor Cursor
	ownPart := int(t.started.Add(1)-1) % len(t.parts)
	for {
		group := t.parts.Next(ownPart)
		if group < 0 {
			t.mu.Lock()
			group = t.parts.Steal(ownPart)
			t.mu.Unlock()
		}
		if group < 0 {
			return nil
		}
		for i := group * t.groupSize; i < min(t.count, (group+1)*t.groupSize); i++ {
			switch {
			case t.stopped.Load():
				return nil
			case t.ctx.Err() != nil:
				return context.Cause(t.ctx)
			}
			if err := t.runTask(&cursor, i); err != nil {
				return err
			}
		}
	}
}

// raisedPanic is the panic of a task in a worker goroutine. It is raised again in the caller's goroutine, where it can
// be recovered. Otherwise a division by zero in a kernel would end the process.
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
