package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/tensor"
)

// MaxResults and MaxOperands are the limits for a [Kernel] of a Go function. A kernel of an expression ([Expr]) may
// have more.
const (
	MaxResults  = 3
	MaxOperands = 4
)

// Kernel is the computation of each element, with the dtypes of its results and operands. It is given by a Go function
// over blocks ([NewKernel]) or an expression ([Expr]). Package iter has constructors for Go functions of single
// elements and of slices. Package iter also runs kernels, after it has checked that the kernel and the iteration have
// the same dtypes. A Kernel is immutable: its methods return changed copies.
//
// The kernel of a float32 comparison x < y, for example, is NewKernel(1, less, tensor.Bool, tensor.Float32,
// tensor.Float32) with a [Block] less that reads n numbers at ptrs[1] and at ptrs[2], and writes n bools at ptrs[0].
type Kernel struct {
	block              Block          // nil for a kernel of an expression
	expression         *lazyCode      // nil for a kernel of a function
	replacedExpression *lazyCode      // the expression that WithBlock replaced by block, or nil
	types              []tensor.DType // dtypes of the results, then of the operands
	numResults         uint8          // number of results
	numOperands        uint8          // number of operands
	bySize             bool           // the kernel accepts any dtypes with the same element sizes (Bits)
	err                error          // the error of the construction, or nil
}

// Block computes n elements of each output. ptrs has an address for each operand, outputs first. The elements at an
// address are contiguous and have the dtype that loops see. An output and an input may have the same address, but must
// not overlap otherwise.
type Block func(ptrs []unsafe.Pointer, n int) error

var errNilFunction = errors.New("iter: the function of the kernel is nil")

// NewKernel makes a Kernel from a function over blocks. types has the dtypes of the results, then of the operands. If
// body is nil, every use of the kernel returns an error.
func NewKernel(results int, body Block, types ...tensor.DType) Kernel {
	switch operands := len(types) - results; {
	case body == nil:
		return Kernel{err: errNilFunction}
	case results < 1 || results > MaxResults || operands < 0 || operands > MaxOperands:
		return Kernel{err: fmt.Errorf("iter: NewKernel: %d results and %d dtypes were given: want 1 to %d results, and a "+
			"dtype for each of them and for 0 to %d operands", results, len(types), MaxResults, MaxOperands)}
	}
	return Kernel{block: body, numResults: uint8(results), numOperands: uint8(len(types) - results), types: types}
}

// IsZero reports whether k is the zero Kernel, which cannot run.
func (k Kernel) IsZero() bool { return k.block == nil && k.expression == nil && k.err == nil }

// Err returns the error of the kernel's construction, or nil.
func (k Kernel) Err() error { return k.err }

// Block returns the function over blocks, or nil for a kernel of an expression.
func (k Kernel) Block() Block { return k.block }

// WithBlock returns the kernel with its function or expression replaced by body. body may reject operands with an
// error. For all other operands, it must compute the same results.
func (k Kernel) WithBlock(body Block) Kernel {
	if k.expression != nil {
		k.replacedExpression = k.expression
	}
	k.block, k.expression = body, nil
	return k
}

// Unchecked returns the kernel of the expression that [Kernel.WithBlock] replaced, or k if no expression was replaced.
// For an integer division, this is the division without the check of the divisor.
func (k Kernel) Unchecked() Kernel {
	if k.replacedExpression != nil {
		k.block, k.expression, k.replacedExpression = nil, k.replacedExpression, nil
	}
	return k
}

// Invalid returns a kernel whose uses all return err.
func Invalid(err error) Kernel { return Kernel{err: err} }

// Results returns the dtypes of the results.
func (k Kernel) Results() []tensor.DType {
	return append([]tensor.DType(nil), k.types[:k.numResults]...)
}

// Operands returns the dtypes of the operands.
func (k Kernel) Operands() []tensor.DType {
	return append([]tensor.DType(nil), k.types[k.numResults:k.numResults+k.numOperands]...)
}

// String returns the types: "(float32, float32) -> bool".
func (k Kernel) String() string {
	list := func(types []tensor.DType) string {
		names := make([]string, len(types))
		for i, d := range types {
			names[i] = d.String()
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	out := list(k.Results())
	if k.numResults == 1 {
		out = k.types[0].String()
	}
	text := list(k.Operands()) + " -> " + out
	if k.bySize {
		text += " by bits"
	}
	return text
}

// Bits returns a kernel that accepts any dtypes with the same element sizes: a kernel of uint32 then also accepts
// float32. Bits is for kernels that move or combine bits regardless of their meaning. The kernel must write 0 or 1 to a
// result that may be bool.
func (k Kernel) Bits() Kernel {
	k.bySize = true
	return k
}

// Ignoring returns the kernel with an additional last operand of the given dtype, which the kernel ignores.
func (k Kernel) Ignoring(dtype tensor.DType) Kernel {
	switch {
	case k.err != nil:
	case k.expression == nil && k.numOperands == MaxOperands:
		k.err = fmt.Errorf("iter: Ignoring: the kernel already has %d operands, which is the limit", MaxOperands)
	case !dtype.Valid():
		k.err = fmt.Errorf("iter: Ignoring: dtype %v of the operand is invalid", dtype)
	default:
		k.types = append(slices.Clone(k.types), dtype)
		k.numOperands++
		ignoring := func(c *expr.Code) *expr.Code { return c.WithOperand(dtype) }
		k.expression, k.replacedExpression = k.expression.withChange(ignoring), k.replacedExpression.withChange(ignoring)
	}
	return k
}

// Exchange returns the kernel with operands i and j exchanged: a-b becomes b-a. i and j do not count results.
func (k Kernel) Exchange(i, j int) Kernel {
	switch {
	case k.err != nil || k.IsZero():
		return k
	case min(i, j) < 0 || max(i, j) >= int(k.numOperands):
		k.err = fmt.Errorf("iter: Exchange: operands %d and %d do not both exist: the kernel has %d operands", i, j,
			k.numOperands)
		return k
	}
	first, second := i+int(k.numResults), j+int(k.numResults) // indices in types and in the addresses of a Block
	k.types = slices.Clone(k.types)
	k.types[first], k.types[second] = k.types[second], k.types[first]
	exchange := func(c *expr.Code) *expr.Code { return c.Exchanged(i, j) }
	k.expression, k.replacedExpression = k.expression.withChange(exchange), k.replacedExpression.withChange(exchange)
	if k.expression != nil {
		return k
	}
	original := k.block
	k.block = func(ptrs []unsafe.Pointer, n int) error {
		ptrs[first], ptrs[second] = ptrs[second], ptrs[first]
		err := original(ptrs, n)
		ptrs[first], ptrs[second] = ptrs[second], ptrs[first]
		return err
	}
	return k
}

// Fits returns an error with the reason if the kernel cannot run over the iteration.
func (k Kernel) Fits(iteration *Rule) error {
	switch {
	case iteration == nil:
		return errNilRule
	case k.err != nil:
		return k.err
	case k.IsZero():
		return errors.New("iter: the zero Kernel computes nothing")
	case iteration.flags.isReduction:
		return errors.New("iter: a reduction has fewer results than elements; run it by a Fold (RunReduce)")
	case !k.sameCounts(iteration):
		return fmt.Errorf("iter: the kernel %v has %d results and %d operands, but the iteration has %d and %d",
			k, k.numResults, k.numOperands, iteration.outCount, len(iteration.operands)-iteration.outCount)
	}
	for i := range iteration.operands {
		if !k.acceptsDType(i, iteration.operands[i].TargetDType) {
			return fmt.Errorf("iter: the kernel %v has %s as %v, but the iteration (%v) has it as %v",
				k, iteration.Place(i), k.types[i], iteration.operands[i].memoryType(), iteration.operands[i].TargetDType)
		}
	}
	return nil
}

var errNilRule = errors.New("iter: the Iterator is nil")

// sameCounts reports whether the kernel and the iteration have the same numbers of results and operands.
func (k *Kernel) sameCounts(iteration *Rule) bool {
	return int(k.numResults) == iteration.outCount && int(k.numOperands) == len(iteration.operands)-iteration.outCount
}

// acceptsAll reports whether the kernel's results and operands have the numbers and dtypes of the iteration.
func (k *Kernel) acceptsAll(iteration *Rule) bool {
	if !k.sameCounts(iteration) {
		return false
	}
	for i := range iteration.operands {
		if !k.acceptsDType(i, iteration.operands[i].TargetDType) {
			return false
		}
	}
	return true
}

// acceptsDType reports whether operand i may have dtype d in the loop. Results come first, as in Kernel.types.
func (k *Kernel) acceptsDType(i int, d tensor.DType) bool {
	return k.types[i] == d || k.bySize && d.Valid() && k.types[i].Size() == d.Size()
}

// Choose implements [Kernels].
func (k Kernel) Choose(iteration *Rule) (Kernel, error) { return k, k.Fits(iteration) }
