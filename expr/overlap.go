package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// A [RowProgram] has several passes over a row. A pass loads operands from places and stores outputs at places. A
// [Place] is an operand or output of the program, a row that an earlier pass stored, or a number that was computed once
// per row. After the loop of a pass, PerRow computes such numbers. A fold reduces the elements of a row, as in a sum.
//
// In the joined loop, the Element of a place distinguishes the rows that are processed together: it is the index of the
// pass if each pass works on one row. This file joins the loops of all passes into one loop. For example, an iteration
// of the joined loop of a softmax may find the maximum of row i+2, compute the exponentials of row i+1, and divide in
// row i.

// Overlap returns one loop for all passes, in which each pass works on a different row. Memory accesses of one pass
// then overlap with the computation of another pass. in and out are the places (sources and destinations) of the
// operands and outputs of c. Their [Place.Element] is the index of the pass. folds are the folds of all passes, in
// order. The values of the folds are the last outputs, which are not stored.
func (program *RowProgram) Overlap() (c *Code, folds []Fold, in, out []Place, err error) {
	joiner := passJoiner{program: program, builder: NewBuilder(), group: 1}
	return joiner.build(joiner.load)
}

// Pipeline is like Overlap, but the code includes the computations that a row program runs once per row: each pass
// computes the numbers that it needs from the folds of earlier passes. One loop can therefore process many rows. Each
// pass processes `group` rows together. [Place.Element] numbers these rows: first the rows of the first pass, then the
// rows of the second pass, and so on. isConstant reports whether an operand is constant across rows. Such an operand is
// read once. The code is nil if a computation that runs once per row stores a result, has an operation that is not
// primitive, or has 64-bit values, which would halve the vector width of the loop.
func (program *RowProgram) Pipeline(group int, isConstant func(operand int) bool) (c *Code, folds []Fold, in,
	out []Place, err error) {
	if group < 1 || isConstant == nil {
		return nil, nil, nil, nil, fmt.Errorf("expr: a pipeline with groups of %d rows: want at least 1 row, and isConstant",
			group)
	}
	if !program.canPipeline() {
		return nil, nil, nil, nil, nil
	}
	joiner := passJoiner{program: program, builder: NewBuilder(), group: group, isConstant: isConstant,
		numbers: map[rowComputation][]Output{}}
	return joiner.build(joiner.loadOrCompute)
}

// passJoiner builds one code for all passes.
type passJoiner struct {
	program    *RowProgram
	builder    *Builder
	group      int                         // number of rows that a pass processes together
	isConstant func(operand int) bool      // for Pipeline
	in         []Place                     // indexed by operand of the new code
	numbers    map[rowComputation][]Output // the results of each computation
}

// rowComputation identifies the computation that runs once per row after a pass, for one of the rows (Place.Element).
type rowComputation struct{ pass, row int }

// build builds the code. loadFrom returns the real part (part 0) or imaginary part (part 1) of the value that a pass
// loads from a place.
func (joiner *passJoiner) build(loadFrom func(place Place, dtype tensor.DType, part int) Value) (code *Code,
	folds []Fold, in, out []Place, err error) {
	var stored, folded []Output
	for element := range joiner.group * len(joiner.program.Passes) { // a row of a pass: see Pipeline
		pass := &joiner.program.Passes[element/joiner.group]
		if pass.Code == nil {
			return nil, nil, nil, nil, errors.New("expr: a pass has no loop")
		}
		values := joiner.builder.Inline(pass.Code, func(n, part int) Value {
			place := pass.In[n]
			place.Element = element
			return loadFrom(place, pass.Code.In[n], part)
		})
		for n, place := range pass.Out {
			if place.Kind == Nowhere {
				folded = append(folded, values[n])
				continue
			}
			place.Element = element
			stored, out = append(stored, values[n]), append(out, place)
		}
		folds = append(folds, pass.Folds...)
	}
	if code, err = joiner.builder.Build(append(stored, folded...)...); err != nil {
		return nil, nil, nil, nil, err
	}
	for n := range folds {
		folds[n].Value = code.Out[len(stored)+n].Re
		out = append(out, Place{Kind: Nowhere})
	}
	return code, folds, joiner.in, out, nil
}

// load returns a part of the operand at a place, and adds the operand to the code if necessary.
func (joiner *passJoiner) load(place Place, dtype tensor.DType, part int) Value {
	operand := slices.Index(joiner.in, place)
	if operand < 0 {
		operand = len(joiner.in)
		joiner.in, joiner.builder.code.In = append(joiner.in, place), append(joiner.builder.code.In, dtype)
	}
	return joiner.builder.load(operand, uint64(part))
}

// loadOrCompute returns a part of the value at a place. If the value is computed once per row, loadOrCompute adds the
// computation to the code, once for each Element that uses the value.
func (joiner *passJoiner) loadOrCompute(place Place, dtype tensor.DType, part int) Value {
	passIndex, resultIndex := joiner.computedAfter(place)
	if place.Kind == AtOperand && joiner.isConstant(place.N) { // all rows share one operand of the new code
		place.Element = 0
	}
	if resultIndex < 0 {
		return joiner.load(place, dtype, part)
	}
	pass, key := &joiner.program.Passes[passIndex], rowComputation{pass: passIndex, row: place.Element}
	if joiner.numbers[key] == nil {
		joiner.numbers[key] = joiner.builder.Inline(pass.PerRow, func(n, part int) Value {
			source := pass.PerRowIn[n]
			source.Element = place.Element
			return joiner.loadOrCompute(source, pass.PerRow.In[n], part)
		})
	}
	return joiner.numbers[key][resultIndex].Re
}

// computedAfter returns the pass after which the number at a place is computed, and its index among the results of that
// computation. If no such computation has the number, both results are -1.
func (joiner *passJoiner) computedAfter(place Place) (passIndex, resultIndex int) {
	if place.Kind == AtNumber {
		for k := range joiner.program.Passes {
			if n := slices.Index(joiner.program.Passes[k].PerRowOut, Place{Kind: AtNumber, N: place.N}); n >= 0 {
				return k, n
			}
		}
	}
	return -1, -1
}

// canPipeline reports whether the computations that run once per row can be part of a loop: see [RowProgram.Pipeline].
func (program *RowProgram) canPipeline() bool {
	loopsHave64Bits := false // the loops of the passes then have the smaller vector width already
	for k := range program.Passes {
		loopsHave64Bits = loopsHave64Bits || program.Passes[k].Code != nil && program.Passes[k].Code.has64Bits()
	}
	for k := range program.Passes {
		pass := &program.Passes[k]
		storesResult := slices.ContainsFunc(pass.PerRowOut, func(p Place) bool { return p.Kind != AtNumber })
		halvesWidth := pass.PerRow != nil && pass.PerRow.has64Bits() && !loopsHave64Bits
		if storesResult || halvesWidth || pass.PerRow != nil && !pass.PerRow.isPrimitive() {
			return false
		}
	}
	return true
}

// isPrimitive reports whether all operations are primitive ([Op.Primitive]).
func (c *Code) isPrimitive() bool {
	return !slices.ContainsFunc(c.Insts, func(inst Inst) bool { return !inst.Op.Primitive() })
}

// has64Bits reports whether some value has 64 bits.
func (c *Code) has64Bits() bool {
	return slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.DType.Size() > 4 })
}
