package interp

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// A value that depends only on one operand of bytes has at most 256 results. A value that depends only on two bools has
// 4 results. These results are computed once, and each element is looked up in a table.

// minTableWork is the minimum work, in additions, of a value with a table. Less work takes no longer than a lookup.
const minTableWork = minBlockWork

// source is the set of operands on which a value depends: one operand of bytes, or two operands of bools in ascending
// order.
type source struct{ first, second expr.Value }

var (
	otherSources = source{expr.None, expr.None} // the value depends on other or more operands
	noSource     = source{-2, expr.None}        // the value is constant
)

// sourcesOf returns the source of each value. An operand with one element for each row has otherSources, because values
// that depend only on such operands are computed once per row, without a table.
func sourcesOf(l *expr.Loop, c *expr.Code) []source {
	from := make([]source, len(c.Insts))
	for v, i := range c.Insts {
		switch from[v] = noSource; {
		case i.Op == expr.Const:
		case i.Op == expr.Load && i.DType.Size() == 1 && c.In[i.A] == i.DType && !l.Scalar[i.A]:
			from[v] = source{i.A, expr.None}
		case i.Op == expr.Load:
			from[v] = otherSources
		default:
			for _, u := range i.Uses() {
				from[v] = unionSources(c, from[v], from[u])
			}
		}
	}
	for v := range from {
		if from[v] == noSource {
			from[v] = otherSources
		}
	}
	return from
}

// unionSources returns the union of two sources.
func unionSources(c *expr.Code, a, b source) source {
	switch {
	case a == b || b == noSource:
		return a
	case a == noSource:
		return b
	case a == otherSources || b == otherSources:
		return otherSources
	}
	for _, v := range []expr.Value{b.first, b.second} {
		switch {
		case v == expr.None || v == a.first || v == a.second:
		case a.second == expr.None && c.In[a.first] == tensor.Bool && c.In[v] == tensor.Bool:
			a = source{min(a.first, v), max(a.first, v)}
		default:
			return otherSources
		}
	}
	return a
}

// tabulate adds tables to the peepholes in found. If a table and a peephole apply to a value, the table replaces the
// peephole. A value gets a table if it depends on few bytes, takes enough work, and is an output or is used by a value
// with another source.
func tabulate(l *expr.Loop, c *expr.Code, found map[expr.Value]peepholeMatch) {
	from := sourcesOf(l, c)
	needed := make([]bool, len(c.Insts))
	for v, i := range c.Insts {
		for _, u := range i.Uses() {
			needed[u] = needed[u] || from[u] != from[v]
		}
	}
	for _, o := range c.Out {
		if needed[o.Re] = true; o.Im != expr.None {
			needed[o.Im] = true
		}
	}
	for _, f := range l.Folds {
		needed[f.V] = true
	}
	for v := range c.Insts {
		if needed[v] && from[v] != otherSources && workOf(c, expr.Value(v)) >= minTableWork {
			found[expr.Value(v)] = byteTable(c, expr.Value(v), from[v])
		}
	}
	for v, f := range found { // remove a peephole with two results if a table replaces one of them
		if f.other == expr.None {
			continue
		}
		if g, ok := found[f.other]; ok && g.other == expr.None {
			delete(found, v)
		}
	}
}

// workOf returns the work of computing a value from operands, in additions.
func workOf(c *expr.Code, v expr.Value) int {
	needed, sum := make([]bool, v+1), 0
	needed[v] = true
	for ; v >= 0; v-- {
		if !needed[v] {
			continue
		}
		sum += workOfOp(c.Insts[v].Op)
		for _, u := range c.Insts[v].Uses() {
			needed[u] = true
		}
	}
	return sum
}

// byteTable returns a table of a value for all contents of its source. A byte of a bool other than 0 counts as 1.
func byteTable(c *expr.Code, v expr.Value, from source) peepholeMatch {
	part := &expr.Code{In: c.In, Insts: c.Insts[:v+1], Funcs: c.Funcs,
		Out: []expr.Output{{DType: c.Insts[v].DType, Re: v, Im: expr.None}}}
	var results [256]uint64
	in := make([]expr.Number, len(c.In))
	for k := range results {
		switch at := uint64(k); {
		case from.second != expr.None && k > 3:
			continue
		case from.second != expr.None:
			in[from.first].Re, in[from.second].Re = at&1, at>>1
		case k > 1 && c.In[from.first] == tensor.Bool:
			results[k] = results[1]
			continue
		default:
			in[from.first].Re = at
		}
		results[k] = part.Eval(in...)[0].Re
	}
	f := peepholeMatch{other: expr.None, uses: []expr.Value{loadOf(part, from.first)}}
	if from.second != expr.None {
		f.uses = append(f.uses, loadOf(part, from.second))
	}
	switch c.Insts[v].DType.Size() {
	case 1:
		f.body = lookUp[uint8](&results, from)
	case 2:
		f.body = lookUp[uint16](&results, from)
	case 4:
		f.body = lookUp[uint32](&results, from)
	default:
		f.body = lookUp[uint64](&results, from)
	}
	return f
}

// loadOf returns the instruction that loads an operand.
func loadOf(c *expr.Code, operand expr.Value) expr.Value {
	return expr.Value(slices.IndexFunc(c.Insts, func(i expr.Inst) bool { return i.Op == expr.Load && i.A == operand }))
}

func lookUp[U word](results *[256]uint64, from source) loopFunc {
	t := new([256]U)
	for k, r := range results {
		t[k] = U(r)
	}
	if from.second != expr.None {
		return lookUpPair((*[4]U)(t[:]))
	}
	return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
		if by.d == int(unsafe.Sizeof(t[0])) && by.a == 1 {
			dst := contiguousElements[U](d, n)
			x := contiguousElements[uint8](a, n)[:len(dst)]
			for i := range dst {
				dst[i] = t[x[i]]
			}
			return
		}
		for i := range n {
			*(*U)(unsafe.Add(d, i*by.d)) = t[*(*uint8)(unsafe.Add(a, i*by.a))]
		}
	}
}

// lookUpPair returns the loop of a table of two bools.
func lookUpPair[U word](t *[4]U) loopFunc {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		if *by == (strides{d: int(unsafe.Sizeof(t[0])), a: 1, b: 1}) {
			dst := contiguousElements[U](d, n)
			x, y := contiguousElements[uint8](a, n)[:len(dst)], contiguousElements[uint8](b, n)[:len(dst)]
			for i := range dst {
				dst[i] = t[min(x[i], 1)|min(y[i], 1)<<1]
			}
			return
		}
		for i := range n {
			x, y := *(*uint8)(unsafe.Add(a, i*by.a)), *(*uint8)(unsafe.Add(b, i*by.b))
			*(*U)(unsafe.Add(d, i*by.d)) = t[min(x, 1)|min(y, 1)<<1]
		}
	}
}
