package exec

import (
	"container/list"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
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

// classes keeps what was prepared, by segment and class of values, within bounds; what was used
// least recently goes first. Programs that still run live on. It is safe for concurrent use.
type classes struct {
	mu    sync.Mutex
	of    map[classKey]*list.Element
	used  list.List // of *class, the latest first
	bytes int
	limit int // of bytes; 0: it is found when it is first needed
}

type classKey struct {
	segment *graph.Segment
	values  string
}

// class is a place for what is prepared for one. Its lock is held while that is done, so that
// concurrent runs wait for it instead of doing it again.
type class struct {
	key   classKey
	bytes int // 0 until it is prepared

	mu    sync.Mutex
	ready *prepared
}

// maxClasses bounds what is kept of small segments, for which bytes do not.
const maxClasses = 1024

// get returns what is prepared for a class, by make where nothing is.
func (c *classes) get(key classKey, make func() (*prepared, error)) (*prepared, error) {
	x := c.at(key)
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ready != nil {
		return x.ready, nil
	}
	p, err := make()
	if short(err) && c.clear() {
		// What is kept may be what is in the way.
		debug.FreeOSMemory()
		p, err = make()
	}
	if err != nil || !p.keepable() {
		c.drop(x)
		return p, err
	}
	x.ready = p
	c.keep(x, p.bytes())
	return p, nil
}

// at returns the place for a class and marks it as the latest used.
func (c *classes) at(key classKey) *class {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[classKey]*list.Element{}
	}
	e := c.of[key]
	if e == nil {
		e = c.used.PushFront(&class{key: key})
		c.of[key] = e
	} else {
		c.used.MoveToFront(e)
	}
	return e.Value.(*class)
}

// keep counts what has been prepared, and drops what is too much, but not x itself.
func (c *classes) keep(x *class, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[x.key] == nil || c.of[x.key].Value != x {
		return // it was dropped meanwhile
	}
	x.bytes = bytes
	c.bytes = sum(c.bytes, bytes)
	for e := c.used.Back(); e != nil && (c.used.Len() > maxClasses || c.bytes > c.most()); {
		before := e.Prev()
		if e.Value != x {
			c.remove(e)
		}
		e = before
	}
}

// most returns the bytes that may be kept: half of what the process may have when that is first
// asked, for what is kept comes on top of what runs.
func (c *classes) most() int {
	if c.limit == 0 {
		if c.bytes < unasked {
			return unasked
		}
		c.limit = max(machine.Memory().Left/2, unasked)
	}
	return c.limit
}

func (c *classes) drop(x *class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.of[x.key]; e != nil && e.Value == x {
		c.remove(e)
	}
}

func (c *classes) remove(e *list.Element) {
	x := c.used.Remove(e).(*class)
	delete(c.of, x.key)
	c.bytes -= x.bytes
}

// clear drops everything, and reports whether that was anything.
func (c *classes) clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.bytes > 0
	clear(c.of)
	c.used.Init()
	c.bytes = 0
	return was
}

// short reports whether an error is that there is no memory.
func short(err error) bool {
	return errors.As(err, new(*MemoryError)) || errors.As(err, new(*tensor.MemoryError))
}
