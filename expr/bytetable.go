package expr

import (
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// What is computed from one operand of bytes alone has two results, or 256, and from two of bools four: they are
// computed once, and an element is looked up.

// tableWork is the least work, in instructions, for which a table is made: less takes as long as looking it up, and
// the table besides.
const tableWork = armWork

// origin is the operands that alone a value is computed from: one of bytes, or two of bools in their order.
type origin struct{ first, second Value }

var (
	ofOthers  = origin{None, None} // what is computed from others
	ofNumbers = origin{-2, None}   // a number, which may be in all tables
)

// origins finds where each value comes from. Operands that are the same for a row need no table: what depends on them
// is computed once.
func origins(l *Loop, c *Code) []origin {
	from := make([]origin, len(c.Insts))
	for v, i := range c.Insts {
		switch from[v] = ofNumbers; {
		case i.Op == Const:
		case i.Op == Load && i.DType.Size() == 1 && c.In[i.A] == i.DType && !l.Scalar[i.A]:
			from[v] = origin{i.A, None}
		case i.Op == Load:
			from[v] = ofOthers
		default:
			for _, u := range i.Uses() {
				from[v] = c.together(from[v], from[u])
			}
		}
	}
	for v := range from {
		if from[v] == ofNumbers {
			from[v] = ofOthers
		}
	}
	return from
}

// together is where a value comes from that is computed from two.
func (c *Code) together(a, b origin) origin {
	switch {
	case a == b || b == ofNumbers:
		return a
	case a == ofNumbers:
		return b
	case a == ofOthers || b == ofOthers:
		return ofOthers
	}
	for _, v := range []Value{b.first, b.second} {
		switch {
		case v == None || v == a.first || v == a.second:
		case a.second == None && c.In[a.first] == tensor.Bool && c.In[v] == tensor.Bool:
			a = origin{min(a.first, v), max(a.first, v)}
		default:
			return ofOthers
		}
	}
	return a
}

// tabulate puts tables in the place of what is computed from few bytes and needed by something else, where that is
// worth it: among the idioms, which it may stand for.
func tabulate(l *Loop, c *Code, found map[Value]found) {
	from := origins(l, c)
	needed := make([]bool, len(c.Insts))
	for v, i := range c.Insts {
		for _, u := range i.Uses() {
			needed[u] = needed[u] || from[u] != from[v]
		}
	}
	for _, o := range c.Out {
		if needed[o.Re] = true; o.Im != None {
			needed[o.Im] = true
		}
	}
	for _, f := range l.Folds {
		needed[f.V] = true
	}
	for v := range c.Insts {
		if needed[v] && from[v] != ofOthers && c.workOf(Value(v)) >= tableWork {
			found[Value(v)] = c.table(Value(v), from[v])
		}
	}
	for v, f := range found { // an idiom of two results is none where one is looked up
		if f.other == None {
			continue
		}
		if g, ok := found[f.other]; ok && g.other == None {
			delete(found, v)
		}
	}
}

// workOf is what it takes to compute a value.
func (c *Code) workOf(v Value) int {
	needed, sum := make([]bool, v+1), 0
	needed[v] = true
	for ; v >= 0; v-- {
		if !needed[v] {
			continue
		}
		sum += work(c.Insts[v].Op)
		for _, u := range c.Insts[v].Uses() {
			needed[u] = true
		}
	}
	return sum
}

// table computes a value for all that it may come from. Bools are 0 or 1, whose result all other bytes have, too.
func (c *Code) table(v Value, from origin) found {
	part := &Code{In: c.In, Insts: c.Insts[:v+1], Funcs: c.Funcs, Out: []Output{{c.Insts[v].DType, v, None}}}
	var results [256]uint64
	in := make([]Number, len(c.In))
	for k := range results {
		switch at := uint64(k); {
		case from.second != None && k > 3:
			continue
		case from.second != None:
			in[from.first].Re, in[from.second].Re = at&1, at>>1
		case k > 1 && c.In[from.first] == tensor.Bool:
			results[k] = results[1]
			continue
		default:
			in[from.first].Re = at
		}
		results[k] = part.Eval(in...)[0].Re
	}
	f := found{other: None, uses: []Value{part.load(from.first)}}
	if from.second != None {
		f.uses = append(f.uses, part.load(from.second))
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

// load returns the instruction that reads an operand.
func (c *Code) load(operand Value) Value {
	return Value(slices.IndexFunc(c.Insts, func(i Inst) bool { return i.Op == Load && i.A == operand }))
}

func lookUp[U word](results *[256]uint64, from origin) body {
	t := new([256]U)
	for k, r := range results {
		t[k] = U(r)
	}
	if from.second != None {
		return lookUpPair((*[4]U)(t[:]))
	}
	return func(d, a, _, _, _, _ unsafe.Pointer, n int, by *strides) {
		if by.d == int(unsafe.Sizeof(t[0])) && by.a == 1 {
			dst := flat[U](d, n)
			x := flat[uint8](a, n)[:len(dst)]
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

// lookUpPair looks up what comes from two bools.
func lookUpPair[U word](t *[4]U) body {
	return func(d, a, b, _, _, _ unsafe.Pointer, n int, by *strides) {
		if *by == (strides{d: int(unsafe.Sizeof(t[0])), a: 1, b: 1}) {
			dst := flat[U](d, n)
			x, y := flat[uint8](a, n)[:len(dst)], flat[uint8](b, n)[:len(dst)]
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
