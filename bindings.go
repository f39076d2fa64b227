package graphrun

import (
	"strconv"

	"github.com/graphrun/graphrun/internal/recent"
	"github.com/graphrun/graphrun/tensor"
)

// bindings keeps the programs that were bound to sizes, within bounds on their number and on the memory that they hold
// beside what their class has.
type bindings = recent.Cache[sizesKey, *compiled]

// keptBindings bounds the programs of small graphs, for which bytes do not.
const keptBindings = 256

// maxQuick bounds the symbols for which the sizes of a run are read and found without allocation.
const maxQuick = 16

// sizesKey is what programs are found by: the sizes of the open symbols, in text where there are many.
type sizesKey struct {
	few  [maxQuick]int
	many string
}

// keyOf returns the key of sizes, of which there are as many for all keys of a program.
func keyOf(sizes []int) (k sizesKey) {
	if len(sizes) > maxQuick {
		var text []byte // package fmt would have the sizes of every caller on the heap
		for _, n := range sizes {
			text = append(strconv.AppendInt(text, int64(n), 10), ' ')
		}
		return sizesKey{many: string(text)}
	}
	copy(k.few[:], sizes)
	return k
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
