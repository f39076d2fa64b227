package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// A pass of a [RowProgram] is a loop over the elements of a row. A number (AtNumber) is the result of a fold, or a
// value that a pass computes once per row, such as 1/sum.
//
// This file joins the loops of all passes into one loop, in which each pass works on different rows. Memory accesses of
// one pass then overlap with the computation of another pass. For example, an iteration of the joined loop of a softmax
// may find the maximum of row i+2, compute the exponentials of row i+1, and divide in row i.
//
// Each pass works on a group of rows. [Place.Element] numbers the rows of all passes. For example, with groups of 2
// rows, numbers 0 and 1 are the rows of pass 0, and numbers 2 and 3 are the rows of pass 1.

// Overlap returns one loop for all passes, in which each pass works on a different row. in and out are the places
// (sources and destinations) of the operands and outputs of c. Their [Place.Element] is the index of the pass. folds
// are the folds of all passes, in order. The values of the folds are the last outputs, which are not stored.
func (program *RowProgram) Overlap() (c *Code, folds []Fold, in, out []Place, err error) {
	joined := memo.Of(&program.derived, "overlap", func() passLoop {
		return (&passJoiner{program: program, builder: NewBuilder(), group: 1}).build()
	})
	return joined.code, joined.folds, joined.in, joined.out, joined.err
}

// Pipeline is like Overlap, but the code includes the computations that a row program runs once per row: each pass
// computes the numbers that it needs from the folds of earlier passes. One loop can therefore process many rows. Each
// pass processes `group` rows together. [Place.Element] numbers these rows: first the rows of the first pass, then the
// rows of the second pass, and so on. isConstant reports whether an operand is constant across rows. Such an operand is
// read once.
//
// The code is nil if a computation that runs once per row cannot be part of the loop. Such a computation stores a
// result, has an operation that is not primitive, or has 64-bit values, which would halve the vector width of the loop.
func (program *RowProgram) Pipeline(group int, isConstant func(operand int) bool) (c *Code, folds []Fold, in,
	out []Place, err error) {
	if group < 1 || isConstant == nil {
		return nil, nil, nil, nil, fmt.Errorf("expr: a pipeline with groups of %d rows: want at least 1 row, and isConstant",
			group)
	}
	if !program.canPipeline() {
		return nil, nil, nil, nil, nil
	}
	if program.Code == nil {
		return nil, nil, nil, nil, errors.New("expr: the row program has no code")
	}
	constant := make([]bool, len(program.Code.In))
	for i := range constant {
		constant[i] = isConstant(i)
	}
	key := struct {
		group    int
		constant string
	}{group, bitText(constant)}
	joined := memo.Of(&program.derived, key, func() passLoop {
		return (&passJoiner{program: program, builder: NewBuilder(), group: group,
			isConstant: func(operand int) bool { return constant[operand] }, numbers: map[Place]Value{}}).build()
	})
	return joined.code, joined.folds, joined.in, joined.out, joined.err
}

// passJoiner builds one code for all passes.
type passJoiner struct {
	program *RowProgram
	builder *Builder
	group   int     // number of rows that a pass processes together
	in      []Place // indexed by operand of the new code

	// For Pipeline, otherwise nil.

	isConstant func(operand int) bool
	numbers    map[Place]Value // the numbers that the new code computes so far
}

// build builds the code.
func (joiner *passJoiner) build() (loop passLoop) {
	var stored, folded []Output
	for row := range joiner.group * len(joiner.program.Passes) { // the rows of all passes
		pass := &joiner.program.Passes[row/joiner.group]
		if pass.Code == nil {
			return passLoop{err: errors.New("expr: a pass has no loop")}
		}
		for n, value := range joiner.inline(pass.Code, pass.In, row) {
			place := pass.Out[n]
			if place.Kind == Nowhere {
				folded = append(folded, value)
				continue
			}
			place.Element = row
			stored, loop.out = append(stored, value), append(loop.out, place)
		}
		loop.folds = append(loop.folds, pass.Folds...)
	}
	if loop.code, loop.err = joiner.builder.Build(append(stored, folded...)...); loop.err != nil {
		return loop
	}
	for n := range loop.folds {
		loop.folds[n].Value = loop.code.Out[len(stored)+n].Re
		loop.out = append(loop.out, Place{Kind: Nowhere})
	}
	loop.in = joiner.in
	return loop
}

// inline adds a code whose operands are at the given places of a row, and returns its results.
func (joiner *passJoiner) inline(code *Code, in []Place, row int) []Output {
	return joiner.builder.Inline(code, func(n, part int) Value {
		place := in[n]
		place.Element = row
		return joiner.load(place, code.In[n], part)
	})
}

// load returns the real part (part 0) or imaginary part (part 1) of the value at a place. For Pipeline, a number that a
// pass computes once per row is computed by the code. Any other value is an operand of the code.
func (joiner *passJoiner) load(place Place, dtype tensor.DType, part int) Value {
	if joiner.numbers != nil {
		if pass := joiner.program.computedBy(place); pass != nil {
			return joiner.number(place, pass)
		}
		if place.Kind == AtOperand && joiner.isConstant(place.N) {
			place.Element = 0 // all rows share one operand of the code
		}
	}
	operand := slices.Index(joiner.in, place)
	if operand < 0 {
		operand = len(joiner.in)
		joiner.in, joiner.builder.code.In = append(joiner.in, place), append(joiner.builder.code.In, dtype)
	}
	return joiner.builder.load(operand, uint64(part))
}

// number returns the number at a place, which a pass computes once per row.
func (joiner *passJoiner) number(place Place, pass *RowPass) Value {
	if value, ok := joiner.numbers[place]; ok {
		return value
	}
	for n, result := range joiner.inline(pass.PerRow, pass.PerRowIn, place.Element) {
		joiner.numbers[Place{Kind: AtNumber, N: pass.PerRowOut[n].N, Element: place.Element}] = result.Re
	}
	return joiner.numbers[place]
}

// computedBy returns the pass whose PerRow computes the number at a place, or nil if there is none.
func (program *RowProgram) computedBy(place Place) *RowPass {
	for k := range program.Passes {
		pass := &program.Passes[k]
		if place.Kind == AtNumber && slices.Contains(pass.PerRowOut, Place{Kind: AtNumber, N: place.N}) {
			return pass
		}
	}
	return nil
}

// canPipeline reports whether the computations that run once per row can be part of a loop: see [RowProgram.Pipeline].
func (program *RowProgram) canPipeline() bool {
	// If the loops of the passes have 64-bit values, they already have the smaller vector width.
	loopsHave64Bits := slices.ContainsFunc(program.Passes, func(p RowPass) bool { return p.Code.has64Bits() })
	for k := range program.Passes {
		pass := &program.Passes[k]
		storesResult := slices.ContainsFunc(pass.PerRowOut, func(p Place) bool { return p.Kind != AtNumber })
		halvesWidth := pass.PerRow.has64Bits() && !loopsHave64Bits
		if storesResult || halvesWidth || !pass.PerRow.isPrimitive() {
			return false
		}
	}
	return true
}

// isPrimitive reports whether all operations are primitive ([Op.Primitive]). A nil code has none.
func (c *Code) isPrimitive() bool {
	return c == nil || !slices.ContainsFunc(c.Insts, func(inst Inst) bool { return !inst.Op.Primitive() })
}

// has64Bits reports whether some value has 64 bits. A nil code has none.
func (c *Code) has64Bits() bool {
	return c != nil && slices.ContainsFunc(c.Insts, func(inst Inst) bool { return inst.DType.Size() > 4 })
}
