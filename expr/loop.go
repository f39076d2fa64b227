package expr

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// Lanes is the number of accumulators of a [Fold]: element k of a row goes into accumulator k modulo Lanes, whatever
// the width of vectors, so that a sum has the same bits on all processors.
const Lanes = 32

// MaxOperands is the most operands and outputs that a [Loop] has together.
const MaxOperands = 24

// Fold adds up a value over a row: Op is Add, Mul, Min or Max of numbers or And or Or of integers and bools, whose
// result has the dtype of the value.
type Fold struct {
	Op Op
	V  Value
}

// Loop is a [Code] over rows of elements: what is compiled and run as one. Outputs lie one behind another in a row,
// operands so or, where Scalar says it, one element stands for the whole row. An output may be the memory of an operand
// that lies alike, and else must not overlap one.
type Loop struct {
	Code   *Code
	Scalar []bool // by operand
	// Folds add up values of Code. Those must be outputs of it or needed by one: an output whose dtype is
	// tensor.Invalid is computed and stored nowhere.
	Folds []Fold
	// Totals says that rows are folded one by one: the accumulators of each begin with [Neutral], and in the end they are
	// combined, as [Combine] does, into one number, which is written to where accumulators would be.
	Totals bool
}

// Key identifies the loop: equal keys mean the same machine code.
func (l *Loop) Key() string {
	var b strings.Builder
	b.WriteString(l.Code.Key())
	for _, s := range l.Scalar {
		if s {
			b.WriteByte('s')
		} else {
			b.WriteByte('c')
		}
	}
	for _, f := range l.Folds {
		fmt.Fprintf(&b, "+%d.%d", f.Op, f.V)
	}
	if l.Totals {
		b.WriteByte('t')
	}
	return b.String()
}

// Check returns what is wrong with the loop.
func (l *Loop) Check() error {
	if l.Code == nil {
		return errors.New("expr: a loop without a code")
	}
	if err := l.Code.Check(); err != nil {
		return err
	}
	if len(l.Scalar) != len(l.Code.In) {
		return fmt.Errorf("expr: %d classes of stride for %d operands", len(l.Scalar), len(l.Code.In))
	}
	for k, f := range l.Folds {
		if f.V < 0 || int(f.V) >= len(l.Code.Insts) {
			return fmt.Errorf("expr: fold %d of v%d, which there is not", k, f.V)
		}
		if err := folds(f.Op, l.Code.Insts[f.V].DType); err != nil {
			return fmt.Errorf("expr: fold %d: %w", k, err)
		}
	}
	return nil
}

// DType returns the dtype of a fold's accumulators, or Invalid for a fold that there is not.
func (l *Loop) DType(fold int) tensor.DType {
	if fold < 0 || fold >= len(l.Folds) {
		return tensor.Invalid
	}
	return l.Code.Insts[l.Folds[fold].V].DType
}
