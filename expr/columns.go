package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/tensor"
)

// Columns returns the code of a pass for a loop across rows that are adjacent in memory. An iteration of the loop
// processes the given number of consecutive elements of each row. [Place.Element] is the index of the element. The
// accumulators of folds are the last operands and, in the same memory, the last outputs. Elements are folded in order.
// For example, a pass that stores 2*x0 and sums it has this code for 2 elements, where x0[1] has Element 1:
//
//	y0[0] = 2 * x0[0]    y0[1] = 2 * x0[1]    sum = (sum + y0[0]) + y0[1]
func (program *RowProgram) Columns(passIndex, elements int) (code *Code, in, out []Place, err error) {
	if passIndex < 0 || passIndex >= len(program.Passes) {
		return nil, nil, nil, fmt.Errorf("expr: pass %d does not exist: the program has %d passes", passIndex,
			len(program.Passes))
	}
	pass := &program.Passes[passIndex]
	if pass.Code == nil {
		return nil, nil, nil, errors.New("expr: the pass has no loop")
	}
	if elements < 1 || elements > MaxOperands {
		return nil, nil, nil, fmt.Errorf("expr: elements is %d: want 1 to %d", elements, MaxOperands)
	}
	loop := memo.Of(&program.derived, [2]int{passIndex, elements}, func() passLoop { return program.columns(pass, elements) })
	return loop.code, loop.in, loop.out, loop.err
}

// columns returns the results of Columns.
func (program *RowProgram) columns(pass *RowPass, elements int) passLoop {
	columns := columnsBuilder{program: program, pass: pass, Builder: NewBuilder()}
	folded := make([][]Value, len(pass.Folds)) // indexed by fold, then by element
	for element := range elements {
		for i, v := range columns.addElement(element) {
			folded[i] = append(folded[i], v)
		}
	}
	columns.addFolds(folded)
	code, err := columns.Build(columns.outputs...)
	return passLoop{code: code, in: columns.in, out: columns.out, err: err}
}

// columnsBuilder builds the code of [RowProgram.Columns].
type columnsBuilder struct {
	*Builder
	program *RowProgram
	pass    *RowPass
	outputs []Output
	in, out []Place // the places of operands and outputs
}

// addElement adds the computation of an element. It returns the folded values, indexed by fold.
func (b *columnsBuilder) addElement(element int) []Value {
	values := b.Inline(b.pass.Code, func(i, part int) Value {
		place := b.pass.In[i]
		isPerRow := place.Kind == AtNumber || place.Kind == AtOperand && b.program.Uniform[place.N]
		place.Element = element
		if isPerRow {
			place.Element = 0
		}
		return b.load(b.operand(place, b.pass.Code.In[i]), uint64(part))
	})
	for i, place := range b.pass.Out {
		if place.Kind != Nowhere {
			place.Element = element
			b.outputs, b.out = append(b.outputs, values[i]), append(b.out, place)
		}
	}
	var folded []Value // the last outputs of a pass
	for _, output := range values[len(values)-len(b.pass.Folds):] {
		folded = append(folded, output.Re)
	}
	return folded
}

// addFolds adds the operations that fold the elements into the accumulators. folded is indexed by fold and by element.
func (b *columnsBuilder) addFolds(folded [][]Value) {
	for i, fold := range b.pass.Folds {
		place := Place{Kind: AtNumber, N: b.pass.FoldResults[i]}
		accumulator := b.Load(b.operand(place, b.DType(folded[i][0])))
		for _, element := range folded[i] {
			accumulator = b.Emit(fold.Op, accumulator, element)
		}
		b.outputs, b.out = append(b.outputs, b.Real(accumulator)), append(b.out, place)
	}
}

// operand returns the index of the operand that is loaded from a place.
func (b *columnsBuilder) operand(place Place, dtype tensor.DType) int {
	if i := slices.Index(b.in, place); i >= 0 {
		return i
	}
	b.in, b.code.In = append(b.in, place), append(b.code.In, dtype)
	return len(b.in) - 1
}

// joining has the codes of [Joining].
var joining memo.Memo

// joiningKey is the key of a code in joining.
type joiningKey struct {
	op    Op
	dtype tensor.DType
}

// Joining returns the code that combines two accumulators of a fold by op. The first operand is the accumulator of the
// earlier elements.
func Joining(op Op, dtype tensor.DType) (*Code, error) {
	joined := memo.Of(&joining, joiningKey{op, dtype}, func() (joined passLoop) {
		builder := NewBuilder(dtype, dtype)
		joined.code, joined.err = builder.Build(builder.Real(builder.Emit(op, builder.Load(0), builder.Load(1))))
		return joined
	})
	return joined.code, joined.err
}
