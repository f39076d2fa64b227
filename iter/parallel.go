package iter

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"

	"github.com/graphrun/graphrun/internal/team"
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

// mostParts bounds the parts of a walk: where there are more workers, several have one.
const mostParts = 256

// forTasks runs tasks 0 to n-1 on at most workers goroutines, of which this is one.
func forTasks(ctx context.Context, n, workers int, f func(c *Cursor, task int) error) error {
	if ctx == nil {
		ctx = context.Background()
	}
	t := &tasks{ctx: ctx, n: n, f: f, run: n>>31 + 1}
	workers = min(workersOf(workers), n)
	t.parts = make(team.Parts, min(max(workers, 1), mostParts))
	t.parts.Deal((n + t.run - 1) / t.run)
	if workers <= 1 {
		return t.work()
	}
	t.lead(workers - 1)
	switch p := t.raised.Load(); {
	case p != nil:
		panic(p)
	case t.ended.Load():
		runtime.Goexit() // as it would with one worker: what was computed is not whole
	}
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

// tasks are those of a walk that workers share, each of them a part that lies together.
type tasks struct {
	ctx context.Context
	n   int
	f   func(c *Cursor, task int) error

	run    int // tasks that are handed out together: one, where their number is one that parts can have
	parts  team.Parts
	mu     team.Lock
	came   atomic.Int32          // workers
	stop   atomic.Bool           // nobody begins another task
	err    atomic.Pointer[error] // the first
	raised atomic.Pointer[raisedPanic]
	ended  atomic.Bool // a function of the caller's ended its goroutine
}

// lead works with hands of the team beside this goroutine, and returns when all have left.
func (t *tasks) lead(hands int) {
	j := team.Job{Help: t.guarded}
	j.Begin()
	defer j.End()
	j.Call(hands, team.Much)
	t.guarded()
}

// guarded is work of which a panic is kept for the caller.
func (t *tasks) guarded() {
	returned := false
	defer func() {
		if v := recover(); v != nil {
			t.raised.CompareAndSwap(nil, &raisedPanic{v, debug.Stack()})
		} else if !returned {
			t.ended.Store(true)
		}
		if !returned {
			t.stop.Store(true)
		}
	}()
	if err := t.work(); err != nil {
		t.err.CompareAndSwap(nil, &err)
		t.stop.Store(true)
	}
	returned = true
}

// work runs tasks until there are no more, or one fails.
func (t *tasks) work() error {
	var c Cursor
	own := int(t.came.Add(1)-1) % len(t.parts)
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
			case t.stop.Load():
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
