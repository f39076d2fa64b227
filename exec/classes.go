package exec

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/lru"
	"github.com/graphrun/graphrun/tensor"
)

// prepared is a segment prepared for one class of input values: a program, the call of an op that decides shapes, or
// the segments of its own if shapes within it depend on data.
type prepared struct {
	program *Program
	call    *graph.Call
	inner   *cut
	failed  graph.Errors // nodes left out, if the run is to keep going
}

// bytes estimates the memory held for it, except constants: packed weights, and one session.
func (p *prepared) bytes() int {
	const aStep = 2 << 10
	if p.program == nil {
		return aStep
	}
	n := p.program.need
	return sum(n.Packed, n.Arena, n.Scratch, aStep*len(p.program.steps))
}

// keepable reports whether other runs may use it. Nodes may have been left out because memory was short at the time.
func (p *prepared) keepable() bool {
	return len(p.failed) == 0 && (p.program == nil || len(p.program.failed) == 0)
}

// classes caches prepared segments, by segment and class of input values.
type classes struct {
	kept lru.Cache[classKey, *class]
}

type classKey struct {
	segment *graph.Segment
	values  string
}

// class is a cache entry. Its lock is held during preparation, so that concurrent runs wait, each within its own
// context, instead of preparing the same.
type class struct {
	lock  interrupt.Mutex
	ready *prepared
}

// maxClasses bounds the number of entries; small segments are not bounded by bytes.
const maxClasses = 1024

// get returns the entry for a class, prepared by make if it is new.
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
		// Cached entries may occupy the memory that is missing.
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

// short reports whether an error is a lack of memory.
func short(err error) bool {
	return errors.As(err, new(*MemoryError)) || errors.As(err, new(*tensor.MemoryError))
}
