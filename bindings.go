package graphrun

import (
	"container/list"
	"encoding/binary"
	"sync"

	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// bindings keeps the programs that were bound to sizes, within bounds on their number and on the memory that they hold
// beside what their class has; what was used least recently goes first. Programs that still run live on.
type bindings struct {
	mu    sync.Mutex
	of    map[string]*list.Element // by the sizes of the open symbols: see sizesKey
	used  list.List                // of *kept, the latest first
	bytes int
	limit int // of bytes; 0: it is found when it is first needed
}

// kept is a program in its place.
type kept struct {
	key   string
	bytes int // 0 until it is compiled
	*compiled
}

// keptBindings bounds the programs of small graphs, for which bytes do not.
const keptBindings = 256

// keptUnasked is the number of bytes below which nobody asks what the process may have.
const keptUnasked = 64 << 20

// sizesKey appends sizes as they are found by.
func sizesKey(b []byte, sizes []int) []byte {
	for _, n := range sizes {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// find returns what there is for sizes, or else nil; it marks it as the latest used. It allocates nothing for as many
// symbols as graphs have.
func (b *bindings) find(sizes []int) *compiled {
	var room [8 * maxQuick]byte
	key := sizesKey(room[:0], sizes)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of[string(key)]
	if e == nil {
		return nil
	}
	b.used.MoveToFront(e)
	return e.Value.(*kept).compiled
}

// put has c found for sizes from now on, unless something is: then it returns that.
func (b *bindings) put(sizes []int, c *compiled) *compiled {
	key := string(sizesKey(nil, sizes))
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.of[key]; e != nil {
		b.used.MoveToFront(e)
		return e.Value.(*kept).compiled
	}
	if b.of == nil {
		b.of = map[string]*list.Element{}
	}
	b.of[key] = b.used.PushFront(&kept{key: key, compiled: c})
	return c
}

// settle counts what was compiled, and drops what is too much, but not c itself.
func (b *bindings) settle(sizes []int, c *compiled) {
	bytes := c.bytes()
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of[string(sizesKey(nil, sizes))]
	if e == nil || e.Value.(*kept).compiled != c {
		return
	}
	e.Value.(*kept).bytes = bytes
	b.bytes += bytes
	for last := b.used.Back(); last != nil && (b.used.Len() > keptBindings || b.bytes > b.most()); {
		before := last.Prev()
		if last != e {
			b.remove(last)
		}
		last = before
	}
}

// most returns the bytes that may be kept: half of what the process may have when that is first asked.
func (b *bindings) most() int {
	if b.limit == 0 {
		if b.bytes < keptUnasked {
			return keptUnasked
		}
		b.limit = max(machine.Memory().Left/2, keptUnasked)
	}
	return b.limit
}

// drop forgets what could not be compiled.
func (b *bindings) drop(sizes []int, c *compiled) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.of[string(sizesKey(nil, sizes))]; e != nil && e.Value.(*kept).compiled == c {
		b.remove(e)
	}
}

func (b *bindings) remove(e *list.Element) {
	k := b.used.Remove(e).(*kept)
	delete(b.of, k.key)
	b.bytes -= k.bytes
}

// bytes is about what is held for the program beside the constants of its class: with a session.
func (c *compiled) bytes() int {
	const aStep = 2 << 10
	if c.ahead == nil {
		return aStep
	}
	n := c.ahead.Need()
	return n.Arena + n.Scratch + aStep*len(c.ahead.Steps())
}

// maxQuick bounds the symbols for which the sizes of a run are read without allocation.
const maxQuick = 16

// place is where inputs tell sizes of symbols.
type place struct {
	input string
	dims  []int // by dimension: the open symbol, by its place among those; negative for what is no open symbol
	fixed []int // by dimension: the size that a symbol was given for all runs; negative for none
}

// findPlaces finds where the inputs of runs tell sizes.
func (p *Program) findPlaces() {
	at := map[string]int{}
	for i, name := range p.open {
		at[name] = i
	}
	for _, i := range p.symbolic {
		v := p.graph.Inputs[i]
		pl := place{input: v.Name}
		for _, d := range v.Dims {
			open, fixed := -1, -1
			if k, is := at[d.Symbol]; is && d.Symbol != "" {
				open = k
			} else if n, is := p.fixed[d.Symbol]; is && d.Symbol != "" {
				fixed = n
			}
			pl.dims, pl.fixed = append(pl.dims, open), append(pl.fixed, fixed)
		}
		p.places = append(p.places, pl)
	}
}

// quick reads the sizes of the open symbols from inputs. It is false where they do not tell all of them, or tell
// different ones, or others than are fixed: then somebody finds out what is wrong.
func (p *Program) quick(in map[string]*tensor.Tensor, sizes []int) bool {
	for i := range sizes {
		sizes[i] = -1
	}
	for i := range p.places {
		pl := &p.places[i]
		t := in[pl.input]
		if t == nil || len(t.Shape) != len(pl.dims) {
			return false
		}
		for d, n := range t.Shape {
			switch open := pl.dims[d]; {
			case open < 0:
				if pl.fixed[d] >= 0 && pl.fixed[d] != n {
					return false
				}
			case sizes[open] < 0:
				sizes[open] = n
			case sizes[open] != n:
				return false
			}
		}
	}
	for _, n := range sizes {
		if n < 0 {
			return false
		}
	}
	return true
}
