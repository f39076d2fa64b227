// Package contiguity has PyTorch's predicates about sizes and strides, such as is_contiguous and is_channels_last.
// Sizes and strides are numbers or symbolic expressions ([sym.Int]).
//
// Each [Predicate] has two forms. Condition is a formula without branches ([sym.Bool]). Branches follows PyTorch's C++
// code, with the same branches. [sym.Bool.Holds] decides the comparison of a branch, and may record the outcome as a
// guard: an assumption about the symbols. For example, these are the two forms of "contiguous" for shape [x1, x2] and
// strides [y1, y2]:
//
//	Condition: x1*x2 = 0 or ((x2 = 1 or y2 = 1) and (x1 = 1 or y1 = x2))
//	Branches:  if x1*x2 == 0 { return true }
//	           if x2 != 1 && y2 != 1 { return false }
//	           return x1 == 1 || y1 == x2
//
// [Prove] proves that both forms agree. For one rank, it follows every path through the branches. For all ranks, it
// uses an induction over the dimensions (Predicate.Steps). A claim is a formula over several predicates. [ParseClaim]
// parses a claim, and [ProveClaim] proves it for one rank.
package contiguity

import "github.com/graphrun/graphrun/sym"

// conditionFunc returns a condition on sizes and strides, which must not be negative.
type conditionFunc = func(shape, strides []sym.Int) sym.Bool

// branchesFunc evaluates a condition on sizes and strides by branches, and records guards.
type branchesFunc = func(shape, strides []sym.Int) bool

// Predicate is a predicate in two forms.
type Predicate struct {
	// Name is the name of the predicate in command lines and files.
	Name string
	// Doc is a one-sentence description.
	Doc string
	// Rank is the only rank for which the predicate can hold, or 0 for all ranks.
	Rank int
	// Condition and Branches are the two forms.
	Condition conditionFunc
	Branches  branchesFunc
	// Steps are the lemmas of an induction over the dimensions, which shows that both forms agree for any rank.
	Steps []Step

	// parts are the operands of a disjunction, such as "no elements or no overlap". They are set only if Branches sorts
	// the dimensions. For high ranks, Prove proves each part separately, because the whole predicate has too many
	// paths.
	parts []part
}

// part is one operand of a disjunction of predicates.
type part struct {
	name      string
	condition conditionFunc
	branches  branchesFunc
	// symmetric means that permuting the dimensions of a non-empty value does not change the result of the part.
	symmetric bool
}

// Order2d and Order3d list the dimensions of channels-last values from the smallest stride to the greatest. An image
// has the dimensions batch, channels, height and width (NCHW, 0 to 3). Order2d is channels, width, height, batch. (A
// tensor.Order begins with the greatest stride.)
var (
	Order2d = []int{1, 3, 2, 0}
	Order3d = []int{1, 4, 3, 2, 0}
)

// Predicates lists all predicates. A tensor.Predicate is an index of this list. The functions for Condition have the
// suffix Formula, and the functions for Branches have the suffix Branches. They are in dense.go, ordered.go and
// sorted.go. The lemmas (Steps) are in induction.go.
var Predicates = []Predicate{
	{Name: "contiguous",
		Doc:       "The value is row-major; dimensions of size 1 do not count, and a value without elements always is.",
		Condition: contiguousFormula, Branches: contiguousBranches, Steps: []Step{denseStep, noElementsStep}},
	{Name: "channels_last", Rank: 4,
		Doc:       "The value is dense in the order NHWC; dimensions of size 1 do not count.",
		Condition: denseFormula(Order2d), Branches: denseBranches(Order2d), Steps: []Step{denseStep}},
	{Name: "channels_last_3d", Rank: 5,
		Doc:       "The value is dense in the order NDHWC; dimensions of size 1 do not count.",
		Condition: denseFormula(Order3d), Branches: denseBranches(Order3d), Steps: []Step{denseStep}},
	{Name: "strides_like_channels_last", Rank: 4,
		Doc:       "The strides, dense or not, order the dimensions as NHWC.",
		Condition: orderedFormula(Order2d), Branches: orderedBranches(Order2d), Steps: orderedSteps},
	{Name: "strides_like_channels_last_3d", Rank: 5,
		Doc:       "The strides, dense or not, order the dimensions as NDHWC.",
		Condition: orderedFormula(Order3d), Branches: orderedBranches(Order3d), Steps: orderedSteps},
	{Name: "non_overlapping_and_dense",
		Doc:       "Some order of the dimensions makes the value dense.",
		Condition: nonOverlappingAndDenseFormula, Branches: nonOverlappingAndDenseBranches,
		Steps: []Step{denseStep, noElementsStep, sortStep, sortedDenseStep, disjunctionStep},
		parts: nonOverlappingAndDenseParts},
	{Name: "no_overlap",
		Doc: "Each stride exceeds the offsets that dimensions of smaller strides reach, so no two elements share " +
			"memory.",
		Condition: noOverlapFormula, Branches: noOverlapBranches,
		Steps: []Step{disjointStep, noElementsStep, sortStep, reachStep}, parts: noOverlapParts},
	{Name: "suggests_contiguous",
		Doc:       "suggest_memory_format gives contiguous.",
		Condition: suggestsContiguousFormula, Branches: suggestsBranches(noRank), Steps: orderedSteps},
	{Name: "suggests_channels_last", Rank: 4,
		Doc:       "suggest_memory_format gives channels_last.",
		Condition: orderedFormula(Order2d), Branches: suggestsBranches(4), Steps: orderedSteps},
	{Name: "suggests_channels_last_3d", Rank: 5,
		Doc:       "suggest_memory_format gives channels_last_3d.",
		Condition: orderedFormula(Order3d), Branches: suggestsBranches(5), Steps: orderedSteps},
	{Name: "suggests_channels_last_exactly", Rank: 4,
		Doc:       "suggest_memory_format with an exact match gives channels_last.",
		Condition: exactFormula(Order2d), Branches: exactBranches(Order2d), Steps: exactSteps},
	{Name: "suggests_channels_last_3d_exactly", Rank: 5,
		Doc:       "suggest_memory_format with an exact match gives channels_last_3d.",
		Condition: exactFormula(Order3d), Branches: exactBranches(Order3d), Steps: exactSteps},
}

// noRank is the argument of suggestsBranches for a format without a rank: contiguous. The ranks of the channels-last
// formats are 4 and 5.
const noRank = 0

// These are the lemmas for the predicates in ordered.go.
var (
	orderedSteps = []Step{orderedStep, orderedFirstStep}
	exactSteps   = []Step{orderedStep, orderedFirstStep, exactStep}
)

// nonOverlappingAndDenseParts are the parts of the predicate non_overlapping_and_dense.
var nonOverlappingAndDenseParts = []part{
	{name: "contiguous", condition: contiguousFormula, branches: contiguousBranches},
	{name: "channels_last", condition: denseFormula(Order2d), branches: denseBranches(Order2d)},
	{name: "channels_last_3d", condition: denseFormula(Order3d), branches: denseBranches(Order3d)},
	{name: "dense in the order of strides", condition: sortedDenseFormula, branches: sortedDenseBranches,
		symmetric: true},
}

// noOverlapParts are the parts of the predicate no_overlap.
var noOverlapParts = []part{
	{name: "no elements",
		condition: func(shape, _ []sym.Int) sym.Bool { return numel(shape).Eq(sym.Int{}) },
		branches:  func(shape, _ []sym.Int) bool { return numel(shape).Eq(sym.Int{}).Holds() }},
	{name: "apart in the order of strides", condition: disjointFormula, branches: disjointBranches, symmetric: true},
}
