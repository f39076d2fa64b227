package expr

import (
	"unsafe"

	"github.com/graphrun/graphrun/tensor"
)

// What is computed from one operand of bytes alone has two results, or 256: they are computed once, and an element is
// looked up.

// tableWork is the least work, in instructions, for which a table is made: less takes as long as looking it up, and
// the table besides.
const tableWork = armWork

// origins finds for each value the operand of bytes that alone it is computed from; None for others. Operands that are
// the same for a row need no table: what depends on them is computed once.
func origins(l *Loop, c *Code) []Value {
	const any = Value(-2) // a number, which may be in all tables
	from := make([]Value, len(c.Insts))
	for v, i := range c.Insts {
		switch {
		case i.Op == Const:
			from[v] = any
			continue
		case i.Op == Load && i.DType.Size() == 1 && c.In[i.A] == i.DType && !l.Scalar[i.A]:
			from[v] = i.A
			continue
		case i.Op == Load:
			from[v] = None
			continue
		}
		from[v] = any
		for _, u := range i.Uses() {
			switch {
			case from[v] == any:
				from[v] = from[u]
			case from[u] != any && from[u] != from[v]:
				from[v] = None
			}
		}
	}
	for v := range from {
		if from[v] == any {
			from[v] = None
		}
	}
	return from
}

// tabulate puts tables in the place of what is computed from one operand of bytes and needed by something else, where
// that is worth it: among the idioms, which it may stand for.
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
		if needed[v] && from[v] != None && c.workOf(Value(v)) >= tableWork {
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

// table computes a value for all bytes of an operand. Bools are 0 or 1, whose result all others have, too.
func (c *Code) table(v, operand Value) found {
	part := &Code{In: c.In, Insts: c.Insts[:v+1], Funcs: c.Funcs, Out: []Output{{c.Insts[v].DType, v, None}}}
	var results [256]uint64
	in := make([]Number, len(c.In))
	for k := range results {
		if k > 1 && c.In[operand] == tensor.Bool {
			results[k] = results[1]
			continue
		}
		in[operand].Re = uint64(k)
		results[k] = part.Eval(in...)[0].Re
	}
	f := found{other: None}
	for u, i := range part.Insts {
		if i.Op == Load && i.A == operand {
			f.uses = []Value{Value(u)}
		}
	}
	switch c.Insts[v].DType.Size() {
	case 1:
		f.body = lookUp[uint8](&results)
	case 2:
		f.body = lookUp[uint16](&results)
	case 4:
		f.body = lookUp[uint32](&results)
	default:
		f.body = lookUp[uint64](&results)
	}
	return f
}

func lookUp[U word](results *[256]uint64) body {
	t := new([256]U)
	for k, r := range results {
		t[k] = U(r)
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
