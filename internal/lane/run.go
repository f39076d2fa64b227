package lane

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/tensor"
)

// Emulate computes a row of the given number of elements with [Eval], in the iterations of a target's code. First come
// iterations of mainLanes elements, then iterations of tailLanes elements. Partial iterations compute the remaining
// elements, which are fewer than tailLanes. A partial iteration also has tailLanes lanes, but accesses only
// tailLanes/2, tailLanes/4, ..., 1 elements. mainLanes and tailLanes are powers of two that divide FoldLanes, and
// tailLanes is at most mainLanes. For example, with mainLanes 16 and tailLanes 4, a row of 23 elements has iterations
// of 16, 4, 2 and 1 elements.
//
// mem[k] is the memory of pointer k: the elements of the row for an Operand or an Output, and one element for a
// RowOperand. For an Accumulator it is one total if l.CombinesLanes is set, and FoldLanes accumulators otherwise. The
// memory of an Output that is not stored (its DType is Invalid) is ignored.
func (l *Loop) Emulate(mainLanes, tailLanes, elements int, mem [][]byte) error {
	if err := l.Check(); err != nil {
		return err
	}
	for _, lanes := range []int{mainLanes, tailLanes} {
		if lanes < 1 || FoldLanes%lanes != 0 || tailLanes > mainLanes {
			return fmt.Errorf("lane: iterations of %d and %d lanes: both numbers must divide %d, and the second must not "+
				"exceed the first", mainLanes, tailLanes, FoldLanes)
		}
	}
	if err := l.checkMemory(elements, mem); err != nil {
		return err
	}
	run := &rowRun{loop: l, mem: mem, values: make([][]uint64, len(l.Insts))}
	run.startRow()
	for run.firstElement+mainLanes <= elements {
		run.runIteration(mainLanes, mainLanes)
	}
	for run.firstElement+tailLanes <= elements {
		run.runIteration(tailLanes, tailLanes)
	}
	for count := tailLanes / 2; count > 0; count /= 2 {
		if run.firstElement+count <= elements {
			run.runIteration(tailLanes, count)
		}
	}
	run.endRow()
	return nil
}

// checkMemory returns an error if the memory of a pointer does not have the number of bytes that the loop accesses.
func (l *Loop) checkMemory(elements int, mem [][]byte) error {
	if len(mem) != len(l.Ptrs) {
		return fmt.Errorf("lane: mem has memory for %d pointers, but the loop has %d", len(mem), len(l.Ptrs))
	}
	if elements < 0 {
		return fmt.Errorf("lane: the number of elements is %d: it must not be negative", elements)
	}
	for k, ptr := range l.Ptrs {
		count := elements
		if ptr.Kind == RowOperand || ptr.Kind == Accumulator && l.CombinesLanes {
			count = 1
		} else if ptr.Kind == Accumulator {
			count = FoldLanes
		}
		if size := count * ptr.DType.Size(); len(mem[k]) != size && ptr.DType != tensor.Invalid {
			return fmt.Errorf("lane: the memory of pointer %d has %d bytes instead of %d", k, len(mem[k]), size)
		}
	}
	return nil
}

// rowRun is the state of a row.
type rowRun struct {
	loop         *Loop
	mem          [][]byte
	values       [][]uint64          // indexed by Value: a number for each lane, or one number if the value is uniform
	accumulators [][FoldLanes]uint64 // indexed by fold
	firstElement int                 // the first element of the next iteration
}

// startRow computes the uniform values and loads the accumulators.
func (r *rowRun) startRow() {
	for v := range r.loop.Insts {
		if r.loop.Uniform(Value(v)) {
			r.values[v] = []uint64{0}
			r.compute(Value(v), 1)
		}
	}
	r.accumulators = make([][FoldLanes]uint64, len(r.loop.Folds))
	for k, fold := range r.loop.Folds {
		for index := range r.accumulators[k] {
			dtype := r.loop.Ptrs[fold.Ptr].DType
			if r.loop.CombinesLanes { // memory has only the total
				r.accumulators[k][index] = Neutral(fold.Op, dtype)
			} else {
				r.accumulators[k][index] = element(r.mem[fold.Ptr], index, dtype, 0)
			}
		}
	}
}

// endRow stores the accumulators, or combines them and stores the totals.
func (r *rowRun) endRow() {
	for k, fold := range r.loop.Folds {
		acc, dtype, count := &r.accumulators[k], r.loop.Ptrs[fold.Ptr].DType, FoldLanes
		if r.loop.CombinesLanes {
			for half := FoldLanes / 2; half > 0; half /= 2 {
				for index := range half {
					acc[index] = Eval(fold.Op, dtype, dtype, [3]uint64{acc[index], acc[index+half]})
				}
			}
			count = 1
		}
		for index := range count {
			setElement(r.mem[fold.Ptr], index, dtype, 0, acc[index])
		}
	}
}

// runIteration computes values of the given number of lanes from the next elements, folds the values and stores them.
// `elements` is at most `lanes`; the lanes from `elements` on have no element.
func (r *rowRun) runIteration(lanes, elements int) {
	for v, inst := range r.loop.Insts {
		if !r.loop.Uniform(Value(v)) && inst.Op != Store {
			r.values[v] = make([]uint64, lanes)
			r.compute(Value(v), elements)
		}
	}
	for k, fold := range r.loop.Folds {
		for lane := range elements {
			acc, dtype := &r.accumulators[k][(r.firstElement+lane)%FoldLanes], r.loop.Ptrs[fold.Ptr].DType
			*acc = Eval(fold.Op, dtype, dtype, [3]uint64{*acc, r.laneOf(fold.Value, lane)})
		}
	}
	for _, inst := range r.loop.Insts {
		if inst.Op != Store {
			continue
		}
		for part, value := range inst.Operands() { // a complex element has two parts: see elementBytes
			for lane := range elements {
				setElement(r.mem[inst.Ptr], r.firstElement+lane, inst.Type.DType, part, r.laneOf(value, lane))
			}
		}
	}
	r.firstElement += elements
}

// laneOf returns a lane of a value, which has one number for all lanes if it is uniform.
func (r *rowRun) laneOf(value Value, lane int) uint64 {
	return r.values[value][lane%len(r.values[value])]
}

// compute computes the lanes of a value in an iteration that accesses the given number of elements.
func (r *rowRun) compute(value Value, elements int) {
	inst := r.loop.Insts[value]
	uses, operandDType := inst.Operands(), tensor.Invalid
	if len(uses) > 0 { // operands have the same dtype, except for the mask of a Select, its first operand
		operandDType = r.loop.Type(uses[len(uses)-1]).DType
	}
	for lane := range r.values[value] {
		result := &r.values[value][lane]
		var args [3]uint64
		for k, operand := range uses {
			args[k] = r.laneOf(operand, lane)
		}
		switch inst.Op {
		case Const:
			*result = inst.Imm
		case Load:
			*result = r.load(&inst, lane, elements)
		case Lookup:
			*result = uint64(math.Float32bits(inst.Table[args[0]%uint64(len(inst.Table))]))
		default:
			*result = Eval(inst.Op, inst.Type.DType, operandDType, args)
		}
	}
}

// load returns what a Load reads in a lane: a part of an element. It returns 0 in the lanes from `elements` on.
func (r *rowRun) load(inst *Inst, lane, elements int) uint64 {
	ptr, part := r.loop.Ptrs[inst.Ptr], int(inst.Imm)
	switch {
	case ptr.Kind == RowOperand: // one element for the whole row
		return element(r.mem[inst.Ptr], 0, ptr.DType, part)
	case lane >= elements:
		return 0
	}
	return element(r.mem[inst.Ptr], r.firstElement+lane, ptr.DType, part)
}

// elementBytes returns the bytes of a part of an element: part 1 is the imaginary part, part 0 the real part or a real
// element.
func elementBytes(mem []byte, index int, dtype tensor.DType, part int) []byte {
	size := dtype.ToReal().Size()
	return mem[index*dtype.Size()+part*size:][:size]
}

// element returns the bits of a part of an element, zero-extended.
func element(mem []byte, index int, dtype tensor.DType, part int) uint64 {
	switch bytes := elementBytes(mem, index, dtype, part); len(bytes) {
	case 1:
		return uint64(bytes[0])
	case 2:
		return uint64(binary.NativeEndian.Uint16(bytes))
	case 4:
		return uint64(binary.NativeEndian.Uint32(bytes))
	default:
		return binary.NativeEndian.Uint64(bytes)
	}
}

// setElement sets a part of an element.
func setElement(mem []byte, index int, dtype tensor.DType, part int, bits uint64) {
	switch bytes := elementBytes(mem, index, dtype, part); len(bytes) {
	case 1:
		bytes[0] = byte(bits)
	case 2:
		binary.NativeEndian.PutUint16(bytes, uint16(bits))
	case 4:
		binary.NativeEndian.PutUint32(bytes, uint32(bits))
	default:
		binary.NativeEndian.PutUint64(bytes, bits)
	}
}
