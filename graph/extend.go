package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// Extend returns an op with further implementations, or with other prices of its implementations. It has the name and
// the meaning of op, so that graph files, ONNX models and passes use it in place of op:
//
//	conv, err := graph.Extend(kernels.Lookup("conv2d"),
//		graph.Impl{Name: "mine", Doc: "My loop.", Work: price, Lower: lower}, // an implementation
//		graph.Impl{Name: "direct_nhwc", Work: otherPrice})                    // a price
//	lookup, err := graphrun.Lookup(conv)
//
// An Impl with a new name is added behind the others; it needs Work and Lower, and the defaults of its other functions
// are those of [Define]. An Impl with the name of an implementation of op replaces Work, Read or both, and must not set
// anything else; [Op.Impl] finds the replaced functions. Fused nodes with the op as anchor have the same
// implementations and prices. A loop that computes several pointwise nodes has neither: pin the node, or plan without
// fusion.
//
// The planner checks what the functions return. A Work or Read that panics or returns a number that is not finite, a
// Work that returns a negative number, and walks that do not fit the results are errors that name op and
// implementation.
//
// Extend fails if op was not made by Define or Extend, if it has no implementations, as views and composite ops, or for
// an invalid Impl. The error names it.
func Extend(op *Op, impls ...Impl) (*Op, error) {
	switch {
	case op == nil:
		return nil, errors.New("the op to extend is nil")
	case op.original != op:
		return nil, fmt.Errorf("op %q was not made by graph.Define", op.Name)
	case len(op.Impls) == 0:
		return nil, fmt.Errorf("op %q has no implementations, so it cannot be extended", op.Name)
	}
	extended := *op
	extended.Impls = slices.Clone(op.Impls)
	for i, impl := range impls {
		if err := extended.extend(impl); err != nil {
			return nil, fmt.Errorf("op %q: extension %d: %w", op.Name, i, err)
		}
	}
	extended.Compile = extended.compileByImpl
	extended.original, extended.base, extended.derived = &extended, op.Base(), new(memo.Memo)
	return &extended, nil
}

// Base returns the op that [Extend] extended or, for any other op, the op itself. Compare an op with an op of a
// catalogue by its Base.
func (op *Op) Base() *Op {
	if op == nil || op.base == nil {
		return op
	}
	return op.base
}

// extend adds or changes an implementation.
func (op *Op) extend(impl Impl) error {
	checked := op.checked(impl)
	i := slices.IndexFunc(op.Impls, func(other Impl) bool { return other.Name == impl.Name })
	switch {
	case impl.Name == "":
		return errors.New("the implementation has no name")
	case impl.definedRead != nil:
		return fmt.Errorf("implementation %q is a copy of an implementation of an op: set the fields that it needs alone",
			impl.Name)
	case i < 0 && (impl.Work == nil || impl.Lower == nil):
		return fmt.Errorf("implementation %q is new, and lacks Work or Lower", impl.Name)
	case i < 0:
		op.completeImpl(&checked)
		op.Impls = append(op.Impls, checked)
		return nil
	case impl.Work == nil && impl.Read == nil || impl.setsMore():
		return fmt.Errorf("%q is an implementation of the op: want another name or, to change its price, only Work or Read",
			impl.Name)
	}
	changed := &op.Impls[i]
	if impl.Work != nil {
		changed.Work = withFootprint(checked.Work)
	}
	if impl.Read != nil {
		changed.hasRead, changed.definedRead, changed.Read = true, checked.Read, readWithFootprint(checked.Read)
	}
	return nil
}

// setsMore reports whether an implementation sets more than its name and its prices.
func (impl *Impl) setsMore() bool {
	return impl.Doc != "" || impl.Inexact || impl.Epilogues || impl.Walks != nil || impl.Writes != nil ||
		impl.Pack != nil || impl.ReadsView != nil || impl.Lower != nil || impl.Forms != nil ||
		impl.ResultPlace != tensor.Host || impl.OperandPlace != tensor.Host
}

// checked returns an implementation whose Walks, Read and Work check the results of the given functions, and name op
// and implementation if these panic.
func (op *Op) checked(impl Impl) Impl {
	part := extension{op.Name, impl.Name}
	if walks := impl.Walks; walks != nil {
		impl.Walks = func(call *Call, candidates []tensor.Order) []Walk {
			defer part.name("Walks")
			list := walks(call, candidates)
			for _, walk := range list {
				part.mustBe(call.checkWalk(walk))
			}
			return list
		}
	}
	if read := impl.Read; read != nil {
		impl.Read = func(call *Call, walk Walk, i int, meta tensor.Meta) (pricing.Work, bool) {
			defer part.name("Read")
			work, ok := read(call, walk, i, meta)
			part.mustBe(checkWork(&work, math.Inf(-1)))
			return work, ok
		}
	}
	if work := impl.Work; work != nil {
		impl.Work = func(call *Call, walk Walk) pricing.Work {
			defer part.name("Work")
			result := work(call, walk)
			part.mustBe(checkWork(&result, 0))
			return result
		}
	}
	return impl
}

// extension names an implementation of [Extend].
type extension struct{ op, impl string }

// name must be deferred. It adds the names of op, implementation and function to a panic.
func (e extension) name(function string) {
	if panicked := recover(); panicked != nil {
		panic(panics.Stated{Err: fmt.Errorf("op %s: %s of implementation %q: %w", e.op, function, e.impl,
			panics.Error(panicked))})
	}
}

// mustBe panics with an error, which the deferred name completes.
func (e extension) mustBe(err error) {
	if err != nil {
		panic(panics.Stated{Err: err})
	}
}

// checkWalk returns an error if the orders of a walk do not fit the results of the call.
func (c *Call) checkWalk(walk Walk) error {
	if len(walk.ResultOrders) > len(c.Out) {
		return fmt.Errorf("a walk has %d orders of results, but the call has %d results", len(walk.ResultOrders), len(c.Out))
	}
	if _, err := tensor.NewOrder(walk.LoopOrder.Dims()...); err != nil {
		return fmt.Errorf("the order of loops of a walk: %w", err)
	}
	for i, order := range walk.ResultOrders {
		if _, err := tensor.NewOrder(order.Dims()...); err != nil {
			return fmt.Errorf("the order of result %d of a walk: %w", i, err)
		}
		if order != "" && order.Rank() != c.Out[i].Rank() {
			return fmt.Errorf("a walk has order %v for result %d, which has %d dimensions", order, i, c.Out[i].Rank())
		}
	}
	return nil
}

// checkWork returns an error if an amount of the work is not finite, or is less than least.
func checkWork(work *pricing.Work, least float64) error {
	isWrong := func(amount float64) bool { return math.IsNaN(amount) || math.IsInf(amount, 0) || amount < least }
	for access, bytes := range work.Bytes {
		if isWrong(bytes) {
			return fmt.Errorf("returns %v %v bytes", bytes, pricing.Access(access))
		}
	}
	for _, part := range work.Parts {
		if isWrong(part.Units) {
			return fmt.Errorf("returns %v units of %q", part.Units, part.Kernel)
		}
	}
	for i, amount := range []float64{work.StartedSteps, work.Footprint, work.Flops} {
		if isWrong(amount) {
			return fmt.Errorf("returns %v %s", amount, []string{"started steps", "bytes of footprint", "flops"}[i])
		}
	}
	return nil
}
