package exec

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// safeTracer wraps a tracer. If a method of the tracer panics, the panic becomes the error of the run. Otherwise a
// panic in a worker would end the process. After a panic only EndRun is called.
type safeTracer struct{ wrapped Tracer }

// SafeTracer returns a tracer that calls t until a method of t panics in a run. The panic is the error of the run, if
// [TraceRun] reports it. It returns t if t is nil or such a tracer.
func SafeTracer(t Tracer) Tracer {
	if _, already := t.(safeTracer); t == nil || already {
		return t
	}
	return safeTracer{t}
}

// tracerPanic holds the first panic of a run's tracer.
type tracerPanic struct{ err atomic.Value }

// recordPanic must be deferred. It records a panic of a tracer's method.
func (t *tracerPanic) recordPanic(method string) {
	if recovered := recover(); recovered != nil {
		t.err.CompareAndSwap(nil, fmt.Errorf("tracer: %s panicked: %v\n%s", method, recovered, debug.Stack()))
	}
}

// callGuarded calls a method of the tracer, unless a method of the tracer has panicked before.
func (t *tracerPanic) callGuarded(method string, call func()) {
	if t.err.Load() == nil {
		defer t.recordPanic(method)
		call()
	}
}

// errorOrPanic returns the error of a run. If this error is nil, it returns the panic of the run's tracer.
func (t *tracerPanic) errorOrPanic(err error) error {
	if panicErr, panicked := t.err.Load().(error); err == nil && panicked {
		return panicErr
	}
	return err
}

// BeginRun implements [Tracer].
func (tracer safeTracer) BeginRun(r *Run) bool {
	defer r.tracerPanic.recordPanic("BeginRun")
	return tracer.wrapped.BeginRun(r)
}

// EndRun implements [Tracer].
func (tracer safeTracer) EndRun(r *Run, err error) {
	defer r.tracerPanic.recordPanic("EndRun")
	tracer.wrapped.EndRun(r, err)
}

// BeginStep implements [Tracer].
func (tracer safeTracer) BeginStep(p Position) {
	p.Run.tracerPanic.callGuarded("BeginStep", func() { tracer.wrapped.BeginStep(p) })
}

// EndStep implements [Tracer].
func (tracer safeTracer) EndStep(p Position, done bool) {
	p.Run.tracerPanic.callGuarded("EndStep", func() { tracer.wrapped.EndStep(p, done) })
}

// BeginChunk implements [Tracer].
func (tracer safeTracer) BeginChunk(p Position) {
	p.Run.tracerPanic.callGuarded("BeginChunk", func() { tracer.wrapped.BeginChunk(p) })
}

// EndChunk implements [Tracer].
func (tracer safeTracer) EndChunk(p Position, err error) {
	p.Run.tracerPanic.callGuarded("EndChunk", func() { tracer.wrapped.EndChunk(p, err) })
}
