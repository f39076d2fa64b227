package lane

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Emulate computes a row of the given number of elements as a target does, with [Eval]: in passes of mainLanes lanes,
// then in passes of restLanes lanes. Fewer than restLanes elements remain. They are computed in partial passes, which
// also have restLanes lanes but access only restLanes/2, restLanes/4, ..., 1 elements. Both numbers are powers of two
// that divide FoldLanes, and restLanes is at most mainLanes.
//
// mem[k] is the memory of pointer k: the elements of the row for an Operand or an Output, and one element for a
// RowOperand. For an Accumulator it is one total if l.Totals is set, and FoldLanes accumulators otherwise. The memory
// of an Output without a store (its D is Invalid) is ignored.
func (l *Loop) Emulate(mainLanes, restLanes, elements int, mem [][]byte) error {
	if err := l.Check(); err != nil {
		return err
	}
	for _, lanes := range []int{mainLanes, restLanes} {
		if lanes < 1 || FoldLanes%lanes != 0 || restLanes > mainLanes {
			return fmt.Errorf("lane: passes of %d and %d lanes: both numbers must divide %d, and the second must not exceed "+
				"the first", mainLanes, restLanes, FoldLanes)
		}
	}
	if err := l.checkMemory(elements, mem); err != nil {
		return err
	}
	r := &run{loop: l, mem: mem, values: make([][]uint64, len(l.Insts))}
	r.startRow()
	for r.from+mainLanes <= elements {
		r.pass(mainLanes, mainLanes)
	}
	for r.from+restLanes <= elements {
		r.pass(restLanes, restLanes)
	}
	for m := restLanes / 2; m > 0; m /= 2 {
		if r.from+m <= elements {
			r.pass(restLanes, m)
		}
	}
	r.endRow()
	return nil
}

// checkMemory returns an error if the memory of a pointer does not have the number of bytes that the loop accesses.
func (l *Loop) checkMemory(elements int, mem [][]byte) error {
	if len(mem) != len(l.Ptrs) {
		return fmt.Errorf("lane: memory for %d pointers, the loop has %d", len(mem), len(l.Ptrs))
	}
	if elements < 0 {
		return fmt.Errorf("lane: a row of %d elements", elements)
	}
	for k, p := range l.Ptrs {
		count := elements
		if p.Kind == RowOperand || p.Kind == Accumulator && l.Totals {
			count = 1
		} else if p.Kind == Accumulator {
			count = FoldLanes
		}
		if size := count * p.D.Size(); len(mem[k]) != size && p.D != tensor.Invalid {
			return fmt.Errorf("lane: pointer %d has %d bytes instead of %d", k, len(mem[k]), size)
		}
	}
	return nil
}

// run is the state of a row.
type run struct {
	loop   *Loop
	mem    [][]byte
	values [][]uint64          // indexed by Value: a number for each lane, or a single number if the value is uniform
	accs   [][FoldLanes]uint64 // indexed by fold
	from   int                 // the first element of the next pass
}

// startRow computes the uniform values and loads the accumulators.
func (r *run) startRow() {
	for v := range r.loop.Insts {
		if r.loop.Uniform(Value(v)) {
			r.values[v] = []uint64{0}
			r.compute(Value(v), 1)
		}
	}
	r.accs = make([][FoldLanes]uint64, len(r.loop.Folds))
	for k, f := range r.loop.Folds {
		for n := range r.accs[k] {
			if d := r.loop.Ptrs[f.Ptr].D; r.loop.Totals {
				r.accs[k][n] = Neutral(f.Op, d)
			} else {
				r.accs[k][n] = element(r.mem[f.Ptr], n, d, 0)
			}
		}
	}
}

// endRow stores the accumulators or totals.
func (r *run) endRow() {
	for k, f := range r.loop.Folds {
		acc, d, count := &r.accs[k], r.loop.Ptrs[f.Ptr].D, FoldLanes
		if r.loop.Totals {
			for count = FoldLanes / 2; count > 0; count /= 2 {
				for n := range count {
					acc[n] = Eval(f.Op, d, d, [3]uint64{acc[n], acc[n+count]})
				}
			}
			count = 1
		}
		for n := range count {
			setElement(r.mem[f.Ptr], n, d, 0, acc[n])
		}
	}
}

// pass computes values of n lanes from the next m elements, folds them and stores them.
func (r *run) pass(n, m int) {
	for v, i := range r.loop.Insts {
		if !r.loop.Uniform(Value(v)) && i.Op != Store {
			r.values[v] = make([]uint64, n)
			r.compute(Value(v), m)
		}
	}
	for k, f := range r.loop.Folds {
		for lane := range m {
			acc, d := &r.accs[k][(r.from+lane)%FoldLanes], r.loop.Ptrs[f.Ptr].D
			*acc = Eval(f.Op, d, d, [3]uint64{*acc, r.lane(f.V, lane)})
		}
	}
	for _, i := range r.loop.Insts {
		if i.Op != Store {
			continue
		}
		for part, v := range i.Uses() {
			for lane := range m {
				setElement(r.mem[i.Ptr], r.from+lane, i.Type.D, part, r.lane(v, lane))
			}
		}
	}
	r.from += m
}

// lane returns a lane of a value.
func (r *run) lane(v Value, lane int) uint64 { return r.values[v][lane%len(r.values[v])] }

// compute computes the lanes of a value in a pass that accesses m elements.
func (r *run) compute(v Value, m int) {
	i := r.loop.Insts[v]
	uses, source := i.Uses(), tensor.Invalid
	if len(uses) > 0 {
		source = r.loop.Type(uses[len(uses)-1]).D
	}
	for lane := range r.values[v] {
		to := &r.values[v][lane]
		var x [3]uint64
		for k, u := range uses {
			x[k] = r.lane(u, lane)
		}
		switch i.Op {
		case Const:
			*to = i.Imm
		case Load:
			*to = r.load(&i, lane, m)
		case Lookup:
			*to = uint64(math.Float32bits(i.Table[x[0]%uint64(len(i.Table))]))
		default:
			*to = Eval(i.Op, i.Type.D, source, x)
		}
	}
}

// load returns the element that a Load reads in a lane: 0 in lanes from m on.
func (r *run) load(i *Inst, lane, m int) uint64 {
	p := r.loop.Ptrs[i.Ptr]
	switch {
	case p.Kind == RowOperand:
		return element(r.mem[i.Ptr], 0, p.D, int(i.Imm))
	case lane >= m:
		return 0
	}
	return element(r.mem[i.Ptr], r.from+lane, p.D, int(i.Imm))
}

// slot returns the bytes of a part of an element: part 1 is the imaginary part.
func slot(m []byte, index int, d tensor.DType, part int) []byte {
	size := d.ToReal().Size()
	return m[index*d.Size()+part*size:][:size]
}

// element returns the bits of a part of an element.
func element(m []byte, index int, d tensor.DType, part int) uint64 {
	switch s := slot(m, index, d, part); len(s) {
	case 1:
		return uint64(s[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(s))
	case 4:
		return uint64(binary.NativeEndian.Uint32(s))
	default:
		return binary.NativeEndian.Uint64(s)
	}
}

// setElement sets a part of an element.
func setElement(m []byte, index int, d tensor.DType, part int, bits uint64) {
	switch s := slot(m, index, d, part); len(s) {
	case 1:
		s[0] = byte(bits)
	case 2:
		binary.NativeEndian.PutUint16(s, uint16(bits))
	case 4:
		binary.NativeEndian.PutUint32(s, uint32(bits))
	default:
		binary.NativeEndian.PutUint64(s, bits)
	}
}
