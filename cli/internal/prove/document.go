package prove

import (
	"fmt"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/sym"
)

// Document is the output of prove: predicates, and the proof of a predicate or of a claim.
type Document struct {
	Predicates []predicateDoc `json:"predicates" doc:"The named predicates; all predicates if no predicate is named."`
	Claim      *claimDoc      `json:"claim,omitzero" doc:"The claim, if given: predicates joined by ~, &, | and =>."`
	*ProofDoc
}

// claimDoc is the proof or the refutation of a claim.
type claimDoc struct {
	Text    string                   `json:"text" doc:"The claim."`
	Rank    int                      `json:"rank" doc:"The number of dimensions."`
	Expr    string                   `json:"formula" doc:"The claim as a formula over sizes x1 to xR and strides y1 to yR."`
	Classes int                      `json:"ways" doc:"The number of examined classes of sizes and strides, whose members have the same outcome of every comparison."`
	Proved  bool                     `json:"proved" doc:"Whether the claim holds in all classes."`
	Shape   document.ListOrNull[int] `json:"shape" doc:"The sizes of a counterexample; null if none was found."`
	Strides document.ListOrNull[int] `json:"strides" doc:"The strides of a counterexample; null if none was found."`

	Conclusion string `json:"conclusion" doc:"The result as a sentence."`
}

type predicateDoc struct {
	Name string `json:"name" doc:"The name of the predicate."`
	Doc  string `json:"doc" doc:"The meaning of the predicate."`
	Rank *int   `json:"rank" doc:"The only rank for which the predicate can hold; null for any rank."`
}

// ProofDoc is a proof that the two forms of a predicate agree, or a counterexample. The branching form is PyTorch's
// code; the other form is a formula without branches.
type ProofDoc struct {
	Rank           int                `json:"rank" doc:"The number of dimensions."`
	Expr           string             `json:"formula" doc:"The formula over sizes x1 to xR and strides y1 to yR."`
	Atoms          []string           `json:"atoms" doc:"The comparisons of both forms."`
	Ways           []WayDoc           `json:"ways" doc:"The ways (execution paths) through both forms, one for each combination of outcomes of all comparisons."`
	ByParts        bool               `json:"by_parts" doc:"Whether each part of the predicate is proved separately."`
	Steps          []InductionStepDoc `json:"induction" doc:"The steps of the induction over the number of dimensions."`
	Proved         bool               `json:"proved" doc:"Whether the forms agree on every way and all steps hold."`
	Counterexample *CounterexampleDoc `json:"counterexample" doc:"A counterexample; null if none was found."`

	Conclusion string `json:"conclusion" doc:"The result as a sentence."`
}

// WayDoc is a way (an execution path) through both forms. All sizes and strides that take this way have the same
// outcomes of all comparisons.
type WayDoc struct {
	Part      string `json:"part,omitzero" doc:"The part of the predicate; absent unless by_parts."`
	Path      string `json:"path" doc:"The outcomes of the branches."`
	If        string `json:"if" doc:"The outcomes of the branches and of the comparisons in the formula."`
	Branching bool   `json:"branching" doc:"The value of the branching form."`
	Formula   bool   `json:"formula" doc:"The value of the formula."`
}

// InductionStepDoc is a step of the induction.
type InductionStepDoc struct {
	Claim string `json:"claim" doc:"The claim, for arbitrary sizes and strides."`
	Ways  int    `json:"ways" doc:"The number of ways (execution paths) through one iteration of both forms; the claim is checked on each."`
	Holds bool   `json:"holds" doc:"Whether the claim holds on each way."`
}

// CounterexampleDoc is a counterexample.
type CounterexampleDoc struct {
	If        string                   `json:"if" doc:"The way on which the forms disagree."`
	Shape     document.ListOrNull[int] `json:"shape" doc:"Sizes that take this way; null if none were found."`
	Strides   document.ListOrNull[int] `json:"strides" doc:"Strides that take this way; null if none were found."`
	Branching bool                     `json:"branching" doc:"The value of the branching form."`
	Formula   bool                     `json:"formula" doc:"The value of the formula."`
}

// predicatesOf returns the documents of predicates.
func predicatesOf(predicates []contiguity.Predicate) []predicateDoc {
	list := make([]predicateDoc, len(predicates))
	for i, predicate := range predicates {
		list[i] = predicateDoc{Name: predicate.Name, Doc: predicate.Doc}
		if predicate.Rank != 0 {
			list[i].Rank = &predicate.Rank
		}
	}
	return list
}

// proofOf returns the document of a proof. The paths of the report are the ways of the document.
func proofOf(proof *contiguity.Report) *ProofDoc {
	doc := &ProofDoc{Rank: proof.Rank, Expr: proof.Formula.String(), ByParts: proof.ByParts, Proved: proof.Proved,
		Atoms: program.NotNil(format.Strings[sym.Bool](proof.Atoms)), Ways: []WayDoc{}, Steps: []InductionStepDoc{},
		Conclusion: conclusionOf(proof)}
	for _, w := range proof.Paths {
		doc.Ways = append(doc.Ways, WayDoc{Part: w.Part, Path: w.Decisions.String(), If: w.Condition.String(),
			Branching: w.BranchingHolds, Formula: w.FormulaHolds})
	}
	for _, s := range proof.Steps {
		doc.Steps = append(doc.Steps, InductionStepDoc{Claim: s.Claim, Ways: s.Paths, Holds: s.Holds})
	}
	if c := proof.Counterexample; c != nil {
		doc.Counterexample = &CounterexampleDoc{If: c.Path.Condition.String(), Shape: c.Sizes, Strides: c.Strides,
			Branching: c.Path.BranchingHolds, Formula: c.Path.FormulaHolds}
	}
	return doc
}

// conclusionOf returns the result as a sentence, with the reason if there is no proof.
func conclusionOf(proof *contiguity.Report) string {
	c := proof.Counterexample
	switch {
	case c != nil && c.Sizes != nil:
		return fmt.Sprintf("Refuted: for shape %v and strides %v, the branching form is %v and the formula is %v.",
			c.Sizes, c.Strides, c.Path.BranchingHolds, c.Path.FormulaHolds)
	case c != nil: // a way on which the forms disagree, without an example
		return fmt.Sprintf("Not proved: where %v, the branching form is %v and the formula is %v; no sizes and strides "+
			"were found that satisfy this condition.", c.Path.Condition, c.Path.BranchingHolds, c.Path.FormulaHolds)
	case !proof.Proved:
		return "Not proved: the forms agree for this rank, but a step of the induction does not hold."
	case len(proof.Predicate.Steps) == 0: // there is no induction: the proof is for this rank
		ways := format.Count(len(proof.Paths), "way")
		return fmt.Sprintf("Proved for rank %d: both forms agree on all %s.", proof.Rank, ways)
	case proof.Predicate.Rank != 0: // the predicate exists for this rank only
		return fmt.Sprintf("Proved: both forms agree on %s, for all sizes and strides, and the induction holds.",
			allWays(proof))
	}
	return fmt.Sprintf("Proved: both forms agree on %s, for all sizes and strides, and the induction holds for any rank.",
		allWays(proof))
}

func allWays(report *contiguity.Report) string {
	if len(report.Paths) == 1 {
		return "the only way"
	}
	return fmt.Sprintf("all %d ways", len(report.Paths))
}
