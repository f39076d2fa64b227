// Package contiguity has PyTorch's predicates about strides (is_contiguous, is_channels_last, non-overlapping and
// dense, suggest_memory_format ...) for sizes and strides that may be symbolic.
//
// Each [Predicate] has two forms. Condition is a formula without branches. Branches has the branches of PyTorch's C++
// code. Each branch calls [sym.Bool.Holds], which decides a condition and may record the outcome as a guard. [Prove]
// proves that both forms agree: for one rank by following every path, and for all ranks by induction over the
// dimensions (Predicate.Steps). A claim is a formula over several predicates. [ParseClaim] parses a claim, and
// [ProveClaim] proves it for one rank.
package contiguity

import "github.com/graphrun/graphrun/sym"

// Predicate is a predicate in two forms.
type Predicate struct {
	// Name is the name in command lines and files.
	Name string
	// Doc is a one-sentence description.
	Doc string
	// Rank is the only rank for which the predicate can hold, or 0 for all ranks.
	Rank int
	// Condition returns the condition on sizes and strides, which must not be negative.
	Condition func(shape, strides []sym.Int) sym.Bool
	// Branches evaluates the predicate along the branches of PyTorch's code, and records guards.
	Branches func(shape, strides []sym.Int) bool
	// Steps are the lemmas of an induction over the dimensions, which shows that both forms agree for any rank.
	Steps []Step

	// parts are the operands of a disjunction whose evaluation sorts the dimensions; otherwise nil. For high ranks, Prove
	// proves each part alone, because the whole predicate has too many paths.
	parts []part
}

// part is one operand of a disjunction of predicates.
type part struct {
	name      string
	condition func(shape, strides []sym.Int) sym.Bool
	branches  func(shape, strides []sym.Int) bool
	// symmetric means that permuting the dimensions of a non-empty value does not change the result of the part.
	symmetric bool
}

// Order2d and Order3d are the dimensions of channels-last values, fastest first (a tensor.Order is slowest first).
var (
	Order2d = []int{1, 3, 2, 0}
	Order3d = []int{1, 4, 3, 2, 0}
)

// Predicates lists all predicates. A tensor.Predicate is an index of this list. Functions with the suffix Formula make
// a Condition, functions with the suffix Branches make Branches. The lemmas (Steps) are in induction.go.
var Predicates = []Predicate{
	{Name: "contiguous",
		Doc:       "The value is row-major; dimensions of size 1 do not count, and a value without elements always is.",
		Condition: contiguousFormula, Branches: contiguousBranches, Steps: []Step{denseStep, noElementsStep}},
	{Name: "channels_last", Doc: "The value is dense in the order NHWC; dimensions of size 1 do not count.", Rank: 4,
		Condition: denseFormula(Order2d), Branches: denseBranches(Order2d), Steps: []Step{denseStep}},
	{Name: "channels_last_3d", Doc: "The value is dense in the order NDHWC; dimensions of size 1 do not count.", Rank: 5,
		Condition: denseFormula(Order3d), Branches: denseBranches(Order3d), Steps: []Step{denseStep}},
	{Name: "strides_like_channels_last", Doc: "The strides, dense or not, order the dimensions as NHWC.", Rank: 4,
		Condition: orderedFormula(Order2d), Branches: orderedBranches(Order2d), Steps: []Step{orderedStep, orderedFirstStep}},
	{Name: "strides_like_channels_last_3d", Doc: "The strides, dense or not, order the dimensions as NDHWC.", Rank: 5,
		Condition: orderedFormula(Order3d), Branches: orderedBranches(Order3d), Steps: []Step{orderedStep, orderedFirstStep}},
	{Name: "non_overlapping_and_dense", Doc: "Some order of the dimensions makes the value dense.",
		Condition: nonOverlappingAndDenseFormula, Branches: nonOverlappingAndDenseBranches,
		Steps: []Step{denseStep, noElementsStep, sortStep, sortedDenseStep, disjunctionStep}, parts: []part{
			{name: "contiguous", condition: contiguousFormula, branches: contiguousBranches},
			{name: "channels_last", condition: denseFormula(Order2d), branches: denseBranches(Order2d)},
			{name: "channels_last_3d", condition: denseFormula(Order3d), branches: denseBranches(Order3d)},
			{name: "dense in the order of strides", condition: sortedDenseFormula, branches: sortedDenseBranches,
				symmetric: true},
		}},
	{Name: "no_overlap",
		Doc: "Each stride exceeds the offsets that dimensions of smaller strides reach, so no two elements share " +
			"memory.",
		Condition: noOverlapFormula, Branches: noOverlapBranches,
		Steps: []Step{disjointStep, noElementsStep, sortStep, reachStep}, parts: []part{
			{name: "no elements",
				condition: func(shape, _ []sym.Int) sym.Bool { return numel(shape).Eq(sym.Int{}) },
				branches:  func(shape, _ []sym.Int) bool { return numel(shape).Eq(sym.Int{}).Holds() }},
			{name: "apart in the order of strides", condition: disjointFormula, branches: disjointBranches, symmetric: true},
		}},
	{Name: "suggests_contiguous", Doc: "suggest_memory_format gives contiguous.",
		Condition: func(shape, strides []sym.Int) sym.Bool { return suggestedFormula(shape, strides).Not() },
		Branches:  func(shape, strides []sym.Int) bool { return suggestedRank(shape, strides) == 0 },
		Steps:     []Step{orderedStep, orderedFirstStep}},
	{Name: "suggests_channels_last", Doc: "suggest_memory_format gives channels_last.", Rank: 4,
		Condition: orderedFormula(Order2d),
		Branches:  func(shape, strides []sym.Int) bool { return suggestedRank(shape, strides) == 4 },
		Steps:     []Step{orderedStep, orderedFirstStep}},
	{Name: "suggests_channels_last_3d", Doc: "suggest_memory_format gives channels_last_3d.", Rank: 5,
		Condition: orderedFormula(Order3d),
		Branches:  func(shape, strides []sym.Int) bool { return suggestedRank(shape, strides) == 5 },
		Steps:     []Step{orderedStep, orderedFirstStep}},
	{Name: "suggests_channels_last_exactly", Doc: "suggest_memory_format with an exact match gives channels_last.",
		Rank: 4, Condition: exactFormula(Order2d), Branches: exactBranches(Order2d),
		Steps: []Step{orderedStep, orderedFirstStep, exactStep}},
	{Name: "suggests_channels_last_3d_exactly", Doc: "suggest_memory_format with an exact match gives channels_last_3d.",
		Rank: 5, Condition: exactFormula(Order3d), Branches: exactBranches(Order3d),
		Steps: []Step{orderedStep, orderedFirstStep, exactStep}},
}

// one returns the number 1.
func one() sym.Int { return sym.Of(1) }

// is1 returns the condition that a size is 1.
func is1(s sym.Int) sym.Bool { return s.Eq(one()) }

// numel returns the number of elements.
func numel(shape []sym.Int) sym.Int {
	product := one()
	for _, s := range shape {
		product = product.Mul(s)
	}
	return product
}

// rowMajorOrder returns the dimensions of a row-major value, fastest first.
func rowMajorOrder(rank int) []int {
	order := make([]int, rank)
	for i := range order {
		order[i] = rank - 1 - i
	}
	return order
}

// denseFormulaFrom returns the condition that the dimensions are dense in the given order, fastest first. Each
// dimension must have size 1, or a stride of `required` times the product of the sizes of the earlier dimensions. next
// is the stride that a further dimension would need.
func denseFormulaFrom(order []int, shape, strides []sym.Int, required sym.Int) (all sym.Bool, next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(is1(shape[dim]).Or(strides[dim].Eq(required)))
		required = required.Mul(shape[dim])
	}
	return all, required
}

// denseLoop is the loop of TensorImpl::compute_contiguous and of compute_channels_last_contiguous_2d and 3d.
// Its parameters and results are those of denseFormulaFrom.
func denseLoop(order []int, shape, strides []sym.Int, required sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if shape[dim].Ne(one()).Holds() {
			if !strides[dim].Eq(required).Holds() {
				return false, required
			}
			required = required.Mul(shape[dim])
		}
	}
	return true, required
}

// denseFormula returns the Condition of a predicate: the value has the rank of order, and is dense in this order.
func denseFormula(order []int) func(shape, strides []sym.Int) sym.Bool {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := denseFormulaFrom(order, shape, strides, one())
		return all
	}
}

// denseBranches returns the branching form of denseFormula.
func denseBranches(order []int) func(shape, strides []sym.Int) bool {
	return func(shape, strides []sym.Int) bool {
		if len(shape) != len(order) {
			return false
		}
		all, _ := denseLoop(order, shape, strides, one())
		return all
	}
}

// contiguousFormula is the condition that a value is row-major or has no elements.
func contiguousFormula(shape, strides []sym.Int) sym.Bool {
	all, _ := denseFormulaFrom(rowMajorOrder(len(shape)), shape, strides, one())
	return numel(shape).Eq(sym.Int{}).Or(all)
}

// contiguousBranches is TensorImpl::compute_contiguous.
func contiguousBranches(shape, strides []sym.Int) bool {
	if numel(shape).Eq(sym.Int{}).Holds() {
		return true
	}
	all, _ := denseLoop(rowMajorOrder(len(shape)), shape, strides, one())
	return all
}

// orderedFormulaFrom returns the condition that sizes are not 0, and that each stride is at least stride*size of the
// previous dimension in the order. minStride is the lower bound for the first stride, and next the lower
// bound for the stride of a further dimension. At dimension 0, the lower bound must differ from channelStride, the
// stride of the channels: PyTorch thereby rejects ambiguous values, such as a value of shape [N, 1, 1, 1] with equal
// strides.
func orderedFormulaFrom(order []int, shape, strides []sym.Int, minStride, channelStride sym.Int) (all sym.Bool,
	next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(shape[dim].Ne(sym.Int{})).And(strides[dim].Ge(minStride))
		if dim == 0 {
			all = all.And(minStride.Ne(channelStride))
		}
		minStride = strides[dim].Mul(shape[dim].Max(one())) // the loop multiplies only by sizes above 1
	}
	return all, minStride
}

// orderedLoop is the loop of is_channels_last_strides_2d_s4 and 3d_s5, with the parameters of orderedFormulaFrom.
func orderedLoop(order []int, shape, strides []sym.Int, minStride, channelStride sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if shape[dim].Eq(sym.Int{}).Holds() {
			return false, minStride
		}
		if strides[dim].Lt(minStride).Holds() {
			return false, minStride
		}
		if dim == 0 && minStride.Eq(channelStride).Holds() {
			return false, minStride
		}
		minStride = strides[dim]
		if shape[dim].Gt(one()).Holds() {
			minStride = minStride.Mul(shape[dim])
		}
	}
	return true, minStride
}

// orderedFormula returns the Condition of a predicate: the value has the rank of order, the stride of its channels is
// not 0, and orderedFormulaFrom holds.
func orderedFormula(order []int) func(shape, strides []sym.Int) sym.Bool {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := orderedFormulaFrom(order, shape, strides, sym.Int{}, strides[1])
		return strides[1].Ne(sym.Int{}).And(all)
	}
}

// orderedBranches returns the branching form of orderedFormula.
func orderedBranches(order []int) func(shape, strides []sym.Int) bool {
	return func(shape, strides []sym.Int) bool {
		if len(shape) != len(order) || strides[1].Eq(sym.Int{}).Holds() {
			return false
		}
		all, _ := orderedLoop(order, shape, strides, sym.Int{}, strides[1])
		return all
	}
}

// exactFormulaFrom returns the condition that the strides are dense in the order, for dimensions of size 1 too. The
// stride of each dimension must be `required` times the product of the sizes of the earlier dimensions. next is the
// stride that a further dimension would need.
func exactFormulaFrom(order []int, shape, strides []sym.Int, required sym.Int) (all sym.Bool, next sym.Int) {
	all = sym.BoolOf(true)
	for _, dim := range order {
		all = all.And(strides[dim].Eq(required))
		required = required.Mul(shape[dim])
	}
	return all, required
}

// exactLoop compares strides with the results of get_channels_last_strides_2d and 3d.
func exactLoop(order []int, shape, strides []sym.Int, required sym.Int) (all bool, next sym.Int) {
	for _, dim := range order {
		if !strides[dim].Eq(required).Holds() {
			return false, required
		}
		required = required.Mul(shape[dim])
	}
	return true, required
}

// exactFormula returns the condition that strides pass both the test of their order (orderedFormulaFrom) and the exact
// test (exactFormulaFrom) of a channels-last format.
func exactFormula(order []int) func(shape, strides []sym.Int) sym.Bool {
	return func(shape, strides []sym.Int) sym.Bool {
		if len(shape) != len(order) {
			return sym.BoolOf(false)
		}
		all, _ := exactFormulaFrom(order, shape, strides, one())
		return orderedFormula(order)(shape, strides).And(all)
	}
}

// exactBranches returns the branching form of exactFormula.
func exactBranches(order []int) func(shape, strides []sym.Int) bool {
	return func(shape, strides []sym.Int) bool {
		if !orderedBranches(order)(shape, strides) {
			return false
		}
		all, _ := exactLoop(order, shape, strides, one())
		return all
	}
}

// suggestedFormula is the condition that suggest_memory_format returns a channels-last format.
func suggestedFormula(shape, strides []sym.Int) sym.Bool {
	return orderedFormula(Order2d)(shape, strides).Or(orderedFormula(Order3d)(shape, strides))
}

// suggestedRank is TensorBase::suggest_memory_format: it returns the rank of the suggested channels-last format, or
// 0.
func suggestedRank(shape, strides []sym.Int) int {
	if orderedBranches(Order2d)(shape, strides) || orderedBranches(Order3d)(shape, strides) {
		return len(shape)
	}
	return 0
}
