package contiguity

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/graphrun/graphrun/sym"
)

// Report is a proof that the formula and the branching form of a predicate agree, or a refutation. For example, let a
// predicate of rank 1 have the formula x1 ≤ 1 ∨ y1 = 1, and the branching form
//
//	if x1 <= 1 { return true }
//	return y1 == 1
//
// The atoms are x1 ≤ 1 and y1 = 1. There are three paths: x1 ≤ 1 (both forms are true); x1 > 1 and y1 = 1 (true); x1 >
// 1 and y1 ≠ 1 (false). A decision is the answer of a comparison, such as x1 > 1. If earlier answers do not decide a
// comparison, sym.Fork repeats the computation for both answers. It returns a case for each path.
type Report struct {
	Predicate Predicate
	Rank      int
	// Formula is the predicate's condition on sizes x1, x2, ... and strides y1, y2, ...
	Formula sym.Bool
	// Atoms are the comparisons in the formula and the branching form.
	Atoms []sym.Bool
	// Paths are the paths through both forms, the branching form first. A path represents all truth assignments of the
	// atoms that are consistent with its decisions. Every assignment follows exactly one path. Atoms that a path does
	// not decide do not affect the answer of either form.
	Paths []Path
	// Steps are the results of the induction steps.
	Steps []StepReport
	// Proved reports whether both forms agree on every path and all steps hold.
	Proved bool
	// Counterexample is nil if the forms agree.
	Counterexample *Counterexample
	// ByParts reports that the parts of the predicate were proved separately, and that Paths are the paths through the
	// parts: see [Prove].
	ByParts bool

	env            *sym.Env
	shape, strides []sym.Int
}

// Path is one path through both forms.
type Path struct {
	// Part is the name of the part of the predicate, if the parts are proved separately.
	Part string
	// Decisions is the conjunction of the decisions (answers of comparisons) of the branching form. Condition is the
	// conjunction of the decisions of both forms.
	Decisions, Condition sym.Bool
	// BranchingHolds and FormulaHolds are the answers of the two forms.
	BranchingHolds, FormulaHolds bool
}

// StepReport is the result of an induction step: the number of paths through the step, and whether its claim holds on
// all of them.
type StepReport struct {
	Claim string
	Paths int
	Holds bool
}

// Counterexample is a path on which the forms disagree, with sizes and strides that take this path. Sizes and Strides
// are nil if the search found no such sizes and strides.
type Counterexample struct {
	Path           Path
	Sizes, Strides []int
}

// maxPaths is the maximum number of paths that a proof follows.
const maxPaths = 200_000

// minRankByParts is the smallest rank at which predicates with a sort are proved by their parts.
const minRankByParts = 5

// Prove follows every path through both forms of a predicate, for values of a rank from 0 to 6. Prove runs the code of
// both forms. If earlier answers do not decide a comparison, it follows both answers. It also checks the steps of the
// induction.
//
// A predicate that sorts the dimensions has a path for each order of the dimensions. At ranks from 5 on, the parts of
// such a predicate are proved one by one. This suffices, because the predicate is a disjunction of its parts. Symmetric
// parts are proved only for non-decreasing strides, because renumbering the dimensions reduces every other case to this
// case. Prove fails if the rank is not supported.
func Prove(predicate Predicate, rank int) (*Report, error) {
	switch {
	case predicate.Condition == nil || predicate.Branches == nil:
		return nil, fmt.Errorf("contiguity: predicate %q lacks Condition or Branches", predicate.Name)
	case rank < 0 || rank > 6:
		return nil, fmt.Errorf("contiguity: rank %d: want 0 to 6; greater ranks follow by induction", rank)
	case predicate.Rank != 0 && rank != predicate.Rank:
		return nil, fmt.Errorf("contiguity: %s exists for rank %d only, not for rank %d", predicate.Name, predicate.Rank,
			rank)
	}
	report := &Report{Predicate: predicate, Rank: rank, env: sym.NewEnv(), Proved: true}
	report.shape, report.strides = newShapeAndStrides(report.env, rank)
	report.Formula = predicate.Condition(report.shape, report.strides)
	parts := []part{{condition: predicate.Condition, branches: predicate.Branches}}
	if report.ByParts = rank >= minRankByParts && len(predicate.parts) > 0; report.ByParts {
		parts = predicate.parts
	}
	for _, part := range parts {
		if err := report.explorePaths(part); err != nil {
			return nil, err
		}
	}
	if counterexample := report.Counterexample; counterexample != nil && counterexample.Sizes != nil {
		counterexample.Path = report.takenPath(counterexample)
	}
	report.Atoms = report.atoms()
	for _, step := range predicate.Steps {
		holds, paths, err := step.checkAllPaths()
		if err != nil {
			return nil, err
		}
		report.Steps = append(report.Steps, StepReport{Claim: step.Claim, Paths: paths, Holds: holds})
		report.Proved = report.Proved && holds
	}
	return report, nil
}

// explorePaths explores all paths through a part.
func (report *Report) explorePaths(part part) error {
	assumed := report.assumptions(part)
	cases, err := sym.Fork(report.env, maxPaths, func() (Path, error) { return report.followPath(part, assumed) })
	if err != nil {
		return err
	}
	for _, explored := range cases {
		if explored.Err != nil {
			return explored.Err
		}
		path := explored.Value
		path.Condition = explored.If // the decisions of both forms
		report.Paths = append(report.Paths, path)
		if path.BranchingHolds != path.FormulaHolds && report.Counterexample == nil {
			report.Proved = false
			report.Counterexample = report.refute(path)
		}
	}
	return nil
}

// assumptions returns the conditions under which a part is explored. In a proof by parts, a symmetric part is explored
// for values with elements and non-decreasing strides only: see [Prove].
func (report *Report) assumptions(part part) (assumed []sym.Bool) {
	if !part.symmetric || !report.ByParts {
		return nil
	}
	assumed = append(assumed, numel(report.shape).Ne(sym.Int{}))
	for dim := range report.Rank {
		for earlier := range dim {
			assumed = append(assumed, report.strides[earlier].Le(report.strides[dim]))
		}
	}
	return assumed
}

// followPath follows one path through both forms of a part. The environment decides the comparisons of both forms.
func (report *Report) followPath(part part, assumed []sym.Bool) (Path, error) {
	for _, condition := range assumed {
		if err := report.env.Assume(condition); err != nil {
			return Path{}, err
		}
	}
	branching := part.branches(report.shape, report.strides)
	path := Path{Part: part.name, BranchingHolds: branching, Decisions: sym.BoolOf(true)}
	for _, guard := range report.env.Guards() { // before the formula adds guards
		path.Decisions = path.Decisions.And(guard)
	}
	path.FormulaHolds = part.condition(report.shape, report.strides).Holds()
	return path, nil
}

// newShapeAndStrides returns unknown sizes and strides.
func newShapeAndStrides(env *sym.Env, rank int) (shape, strides []sym.Int) {
	for dim := range rank {
		shape = append(shape, symbol(env, "x"+strconv.Itoa(dim+1)))
	}
	for dim := range rank {
		strides = append(strides, symbol(env, "y"+strconv.Itoa(dim+1)))
	}
	return shape, strides
}

// atoms returns the comparisons in the formula and in the conditions of the paths, without duplicates.
func (report *Report) atoms() []sym.Bool {
	listed := map[string]bool{}
	var out []sym.Bool
	add := func(b sym.Bool) {
		for _, atom := range b.Atoms() {
			if !listed[atom.String()] {
				listed[atom.String()] = true
				out = append(out, atom)
			}
		}
	}
	add(report.Formula)
	for _, path := range report.Paths {
		add(path.Condition)
	}
	return out
}

// maxAttempts is the maximum number of random sizes and strides that a search for a counterexample tries.
const maxAttempts = 200_000

// strideChoices are the strides that a search for a counterexample tries: the products of two sizes from 0 to 3, and 5,
// which is no such product. 1 is listed twice, so that it is tried twice as often.
var strideChoices = []int{0, 1, 1, 2, 3, 4, 5, 6, 9}

// refute searches for sizes and strides for which the forms disagree. It tries random sizes, mostly with the strides
// that the condition of the path implies. The sizes and strides that it finds need not take the path.
func (report *Report) refute(path Path) *Counterexample {
	shape, strides := report.shape, report.strides
	counterexample := &Counterexample{Path: path}
	implied := report.impliedStrides(path.Condition)
	rng := rand.New(rand.NewPCG(1, 2))
	sizes, strideValues := make([]int, len(shape)), make([]int, len(shape))
	for range maxAttempts {
		binding := sym.Binding{}
		for dim := range shape { // sizes are from 0 to 3
			sizes[dim], strideValues[dim] = rng.IntN(4), strideChoices[rng.IntN(len(strideChoices))]
			binding[shape[dim].String()], binding[strides[dim].String()] = sizes[dim], strideValues[dim]
		}
		for dim := range strides {
			// Most attempts use the strides that the condition of the path implies.
			if stride, err := implied[dim].At(binding); err == nil && rng.IntN(8) > 0 {
				strideValues[dim] = stride
				binding[strides[dim].String()] = stride
			}
		}
		formulaHolds, err := report.Formula.At(binding)
		if err == nil && formulaHolds != report.Predicate.Branches(sym.Ints(sizes...), sym.Ints(strideValues...)) {
			counterexample.Sizes, counterexample.Strides = sizes, strideValues
			counterexample.Path.FormulaHolds, counterexample.Path.BranchingHolds = formulaHolds, !formulaHolds
			return counterexample
		}
	}
	return counterexample
}

// impliedStrides simplifies the strides under a condition. A stride may simplify to an expression over other symbols:
// under y1 = x2, for example, y1 simplifies to x2.
func (report *Report) impliedStrides(condition sym.Bool) []sym.Int {
	implied := make([]sym.Int, len(report.strides))
	// Fork is called only because it undoes the assumption. Its results are not used.
	_, _ = sym.Fork(report.env, 1, func() (int, error) {
		if report.env.Assume(condition) == nil {
			for dim, stride := range report.strides {
				implied[dim] = stride.Simplify()
			}
		}
		return 0, nil
	})
	return implied
}

// takenPath returns the path that the sizes and strides of a counterexample take. It may differ from
// counterexample.Path, because [Report.refute] tries random numbers.
func (report *Report) takenPath(counterexample *Counterexample) Path {
	binding := sym.Binding{}
	for dim := range report.Rank {
		binding[report.shape[dim].String()] = counterexample.Sizes[dim]
		binding[report.strides[dim].String()] = counterexample.Strides[dim]
	}
	for _, path := range report.Paths {
		if taken, err := path.Condition.At(binding); err == nil && taken && path.BranchingHolds != path.FormulaHolds {
			path.BranchingHolds, path.FormulaHolds = counterexample.Path.BranchingHolds, counterexample.Path.FormulaHolds
			return path
		}
	}
	return counterexample.Path
}

// FormsDiffer returns the condition that the forms disagree. The branching form is expressed as the disjunction of its
// paths with a true answer. If the proof succeeded, the condition is unsatisfiable. In a proof by parts, it is the
// disjunction of the conditions for the parts.
func (report *Report) FormsDiffer() sym.Bool {
	if !report.ByParts {
		return report.partDiffers("", report.Formula)
	}
	disjunction := sym.BoolOf(false)
	for _, part := range report.Predicate.parts {
		differs := report.partDiffers(part.name, part.condition(report.shape, report.strides))
		if part.symmetric { // such parts are proved only for values with elements and non-decreasing strides
			differs = differs.And(numel(report.shape).Ne(sym.Int{}))
			for i := 1; i < report.Rank; i++ {
				differs = differs.And(report.strides[i-1].Le(report.strides[i]))
			}
		}
		disjunction = disjunction.Or(differs)
	}
	return disjunction
}

// partDiffers returns the condition that a part's branching form, expressed by its paths, differs from the part's
// formula.
func (report *Report) partDiffers(part string, formula sym.Bool) sym.Bool {
	holds := sym.BoolOf(false)
	for _, path := range report.Paths {
		if path.BranchingHolds && path.Part == part {
			holds = holds.Or(path.Decisions)
		}
	}
	return holds.And(formula.Not()).Or(holds.Not().And(formula))
}

// SMT returns [Report.FormsDiffer] in SMT-LIB 2. The answer unsat confirms the proof. SMT returns "" for the zero
// Report.
func (report *Report) SMT() string {
	if report.env == nil {
		return ""
	}
	return report.env.SMT(report.FormsDiffer())
}
