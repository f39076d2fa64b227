package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// FoldLanes is the number of accumulators of a [Fold]. Element k of a row is folded into accumulator k mod FoldLanes.
// FoldLanes does not depend on the vector width, so that a sum has the same bits on all processors.
const FoldLanes = lane.FoldLanes

// MaxOperands is the maximum number of operands and outputs of a [Loop] together.
const MaxOperands = 24

// Fold folds a value over a row. Op is Add, Mul, Min or Max for numbers, And or Or for integers and bools. The result
// has the dtype of the value.
type Fold struct {
	Op    Op
	Value Value
}

// Loop is a [Code] over rows of elements. It is the unit of compilation. The elements of an output are contiguous along
// a row. A Uniform operand has one element for each row. The elements of any other operand are contiguous along a row,
// too. An output may have the same address as an operand with the same layout. Apart from this, outputs and operands
// must not overlap.
type Loop struct {
	Code    *Code
	Uniform []bool // indexed by operand: whether it has one element for each row
	// Folds has the folds over a row. Each folded value must be an output of Code, or an operand of an output. An
	// output of dtype Invalid is computed and not stored.
	Folds []Fold
	// CombinesLanes is set if the loop computes one number, the total, for each row and fold. The accumulators of a row
	// then start with [Neutral], and are combined in the order of interp.Combine. The loop writes the number to the
	// address that a loop without CombinesLanes uses for the accumulators of the fold.
	CombinesLanes bool
}

// Key returns a key of the loop. Loops with equal keys have the same machine code.
func (l *Loop) Key() string {
	var key strings.Builder
	key.WriteString(l.Code.Key())
	for _, isUniform := range l.Uniform {
		if isUniform {
			key.WriteByte('s') // a scalar for each row
		} else {
			key.WriteByte('c') // contiguous elements
		}
	}
	for _, fold := range l.Folds {
		fmt.Fprintf(&key, "+%d.%d", fold.Op, fold.Value)
	}
	if l.CombinesLanes {
		key.WriteByte('t') // totals
	}
	return key.String()
}

// Check validates the loop.
func (l *Loop) Check() error {
	if l.Code == nil {
		return errors.New("expr: the loop has no code")
	}
	if err := l.Code.Check(); err != nil {
		return err
	}
	if len(l.Uniform) != len(l.Code.In) {
		return fmt.Errorf("expr: Uniform has %d entries for %d operands", len(l.Uniform), len(l.Code.In))
	}
	for index, fold := range l.Folds {
		if fold.Value < 0 || int(fold.Value) >= len(l.Code.Insts) {
			return fmt.Errorf("expr: fold %d: there is no v%d", index, fold.Value)
		}
		if err := checkFold(fold.Op, l.Code.Insts[fold.Value].DType); err != nil {
			return fmt.Errorf("expr: fold %d: %w", index, err)
		}
	}
	return nil
}

// DType returns the dtype of the accumulators of a fold, or Invalid if there is no such fold.
func (l *Loop) DType(fold int) tensor.DType {
	if fold < 0 || fold >= len(l.Folds) {
		return tensor.Invalid
	}
	return l.Code.Insts[l.Folds[fold].Value].DType
}

// Neutral returns the bits of the neutral element of a fold: 0 for Add, 1 for Mul, the greatest number for Min, the
// least number for Max, all bits for And, and 0 for Or. For floats the neutral element of Add is -0, which preserves a
// sum of -0. Neutral returns 0 for dtypes without arithmetic.
func Neutral(op Op, dtype tensor.DType) uint64 { return lane.Neutral(lane.Op(op), dtype) }
