package exec

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// guarded is a tracer whose panics become the error of the run: workers call its methods, and a panic in a worker would
// end the process. After a panic only EndRun is called.
type guarded struct{ tracer Tracer }

// guardedTracer guards a tracer, once; nil stays nil.
func guardedTracer(t Tracer) Tracer {
	if _, already := t.(guarded); t == nil || already {
		return t
	}
	return guarded{t}
}

// broken is the first panic of a run's tracer.
type broken struct{ err atomic.Pointer[error] }

// caught is deferred. It records a panic of a tracer's method.
func (b *broken) caught(method string) {
	if x := recover(); x != nil {
		err := fmt.Errorf("tracer: %s panicked: %v\n%s", method, x, debug.Stack())
		b.err.CompareAndSwap(nil, &err)
	}
}

// guard calls a method of the tracer unless one has panicked.
func (b *broken) guard(method string, call func()) {
	if b.err.Load() == nil {
		defer b.caught(method)
		call()
	}
}

// or returns the error of a run, or else the panic of its tracer.
func (b *broken) or(err error) error {
	if why := b.err.Load(); err == nil && why != nil {
		return *why
	}
	return err
}

func (g guarded) BeginRun(r *Run) bool {
	defer r.broken.caught("BeginRun")
	return g.tracer.BeginRun(r)
}

func (g guarded) EndRun(r *Run, err error) {
	defer r.broken.caught("EndRun")
	g.tracer.EndRun(r, err)
}

func (g guarded) BeginStep(w Work) {
	w.Run.broken.guard("BeginStep", func() { g.tracer.BeginStep(w) })
}

func (g guarded) EndStep(w Work, done bool) {
	w.Run.broken.guard("EndStep", func() { g.tracer.EndStep(w, done) })
}

func (g guarded) BeginChunk(w Work) {
	w.Run.broken.guard("BeginChunk", func() { g.tracer.BeginChunk(w) })
}

func (g guarded) EndChunk(w Work, err error) {
	w.Run.broken.guard("EndChunk", func() { g.tracer.EndChunk(w, err) })
}
