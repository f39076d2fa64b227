package rule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Kernels is a [Kernel], or a [Table] from which a kernel is selected.
type Kernels interface {
	// Choose returns the kernel for the iteration's dtypes.
	Choose(iteration *Rule) (Kernel, error)
}

// Table holds the kernels of one op, one for each combination of dtypes that the op supports (PyTorch's AT_DISPATCH).
// It is immutable.
type Table struct {
	name    string // name of the op in errors
	kernels []Kernel
	err     error // the error of the construction, or nil
}

// NewTable returns a table of kernels. name is part of the error for dtypes without a kernel: "add_cpu" not implemented
// for 'Half'. The table selects the first kernel that fits.
//
//	var add = rule.NewTable("add_cpu", iter.Slice2(addSlice[float32]), iter.Slice2(addSlice[int32]))
//
// If a kernel has a nil function, or an earlier kernel accepts all dtypes of a later one, every use of the table
// returns an error.
func NewTable(name string, kernels ...Kernel) *Table {
	table := &Table{name: name, kernels: slices.Clone(kernels)}
	for i, kernel := range table.kernels {
		switch {
		case kernel.err != nil:
			table.err = fmt.Errorf("iter: kernel %d of table %q: %w", i, name, kernel.err)
		case kernel.IsZero():
			table.err = fmt.Errorf("iter: kernel %d of table %q is the zero Kernel", i, name)
		}
		for _, earlier := range table.kernels[:i] {
			if table.err == nil && earlier.acceptsAllOf(kernel) {
				table.err = fmt.Errorf("iter: kernel %d of table %q, %v, can never be selected: an earlier kernel accepts "+
					"the same dtypes", i, name, kernel)
			}
		}
	}
	return table
}

// acceptsAllOf reports whether k accepts all dtypes that other accepts. A kernel with bySize accepts all dtypes whose
// elements have the sizes of its dtypes.
func (k Kernel) acceptsAllOf(other Kernel) bool {
	if k.numResults != other.numResults || k.numOperands != other.numOperands || other.bySize && !k.bySize {
		return false
	}
	for i := range int(k.numResults + k.numOperands) {
		if !k.acceptsDType(i, other.types[i]) {
			return false
		}
	}
	return true
}

// Name returns the name used in errors.
func (t *Table) Name() string { return t.name }

// Kernels returns the kernels in order of selection.
func (t *Table) Kernels() []Kernel { return slices.Clone(t.kernels) }

// For returns the kernel for an iteration. If no kernel accepts the dtypes of the operands, it returns PyTorch's error:
// "add_cpu" not implemented for 'Half'. It also fails if the iteration is a reduction, if no kernel has its numbers of
// operands and results, and if a kernel accepts the operands but not the dtypes of the results.
func (t *Table) For(iteration *Rule) (Kernel, error) {
	switch {
	case t == nil:
		return Kernel{}, errors.New("iter: the Table is nil")
	case t.err != nil:
		return Kernel{}, t.err
	case iteration == nil:
		return Kernel{}, errNilRule
	}
	for i := range t.kernels {
		if kernel := &t.kernels[i]; !iteration.flags.isReduction && kernel.acceptsAll(iteration) {
			return *kernel, nil
		}
	}
	return Kernel{}, t.noKernelError(iteration)
}

// Choose implements [Kernels].
func (t *Table) Choose(iteration *Rule) (Kernel, error) { return t.For(iteration) }

// noKernelError returns the error for an iteration that no kernel fits.
func (t *Table) noKernelError(iteration *Rule) error {
	var resultError error
	countsMatch := false
	for _, kernel := range t.kernels {
		err := kernel.Fits(iteration)
		isOnlyKernel := len(t.kernels) == 1
		if iteration.flags.isReduction || isOnlyKernel && !kernel.sameCounts(iteration) {
			return err // the reason does not depend on dtypes
		}
		countsMatch = countsMatch || kernel.sameCounts(iteration)
		if kernel.acceptsInputs(iteration) {
			resultError = err // only the dtypes of the results differ
		}
	}
	switch {
	case resultError != nil:
		return resultError
	case !countsMatch && len(t.kernels) > 0:
		return fmt.Errorf("iter: no kernel of %q has %d results and %d operands",
			t.name, iteration.outCount, len(iteration.operands)-iteration.outCount)
	}
	return NotImplemented(t.name, iteration)
}

// acceptsInputs reports whether the kernel accepts the dtypes of the inputs. It ignores the dtypes of the outputs.
func (k Kernel) acceptsInputs(iteration *Rule) bool {
	if !k.sameCounts(iteration) || k.numOperands == 0 {
		return false
	}
	for i := int(k.numResults); i < len(iteration.operands); i++ {
		if !k.acceptsDType(i, iteration.operands[i].TargetDType) {
			return false
		}
	}
	return true
}

// NotImplemented returns PyTorch's error for an iteration's dtype: "name" not implemented for 'Half'. The error names
// the common dtype. If there is no common dtype, it names the dtype of the first input or, without inputs, of the
// output.
func NotImplemented(name string, iteration *Rule) error {
	dtype := iteration.common
	if dtype == tensor.Invalid && len(iteration.operands) > 0 {
		dtype = iteration.operands[min(iteration.outCount, len(iteration.operands)-1)].MemoryDType
	}
	return fmt.Errorf("\"%s\" not implemented for '%s'", name, dtype.TorchName())
}
