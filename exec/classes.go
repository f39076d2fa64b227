package exec

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/recent"
	"github.com/graphrun/graphrun/tensor"
)

// prepared is a segment made ready for one class of values: a program, or the call of an op that
// decides shapes, or, where shapes within the segment turned out to depend on data, its own
// segments.
type prepared struct {
	program *Program
	call    *graph.Call
	inner   *cut
	failed  graph.Errors // what was left out, where the run is to keep going
}

// bytes is about what is held for it, its constants apart: with a session of its program.
func (p *prepared) bytes() int {
	const aStep = 2 << 10
	if p.program == nil {
		return aStep
	}
	n := p.program.need
	return sum(n.Packed, n.Arena, n.Scratch, aStep*len(p.program.steps))
}

// keepable reports whether another run may use it: what was left out may have been for want of memory.
func (p *prepared) keepable() bool {
	return len(p.failed) == 0 && (p.program == nil || len(p.program.failed) == 0)
}

// classes keeps what was prepared, by segment and class of values.
type classes struct {
	kept recent.Cache[classKey, *class]
}

type classKey struct {
	segment *graph.Segment
	values  string
}

// class is a place for what is prepared for one. Its lock is held while that is done, so that
// concurrent runs wait for it instead of doing it again, each as long as its own context lasts.
type class struct {
	lock  ends.Mutex
	ready *prepared
}

// maxClasses bounds what is kept of small segments, for which bytes do not.
const maxClasses = 1024

// get returns what is prepared for a class, by make where nothing is.
func (c *classes) get(ctx context.Context, key classKey, make func() (*prepared, error)) (*prepared, error) {
	x, ok := c.kept.Find(key)
	if !ok {
		x = c.kept.Put(key, &class{})
	}
	if err := x.lock.Lock(ctx); err != nil {
		return nil, err
	}
	defer x.lock.Unlock()
	if x.ready != nil {
		return x.ready, nil
	}
	p, err := make()
	if short(err) && c.kept.Clear() {
		// What is kept may be what is in the way.
		debug.FreeOSMemory()
		p, err = make()
	}
	if err != nil || !p.keepable() {
		c.kept.Drop(key, x)
		return p, err
	}
	x.ready = p
	c.kept.Count(key, x, p.bytes())
	return p, nil
}

// short reports whether an error is that there is no memory.
func short(err error) bool {
	return errors.As(err, new(*MemoryError)) || errors.As(err, new(*tensor.MemoryError))
}
