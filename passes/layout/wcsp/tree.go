package wcsp

import (
	"github.com/graphrun/graphrun/internal/sorted"
)

// tree is a node of a proof of a lower bound, under construction. [Proof] defines the terms.
type tree struct {
	bound  int64   // lower bound that the node proves
	label  int     // label of the parent's variable, if the node is a branch
	shifts []Shift // costs that are moved between functions
	// cuts are removed labels. Assignments with one of them are only known to cost at least cutoff, so with cuts, bound is
	// at most cutoff.
	cuts     []Cut
	cutoff   int64
	steps    []Step // eliminations of variables
	variable int    // the variable on which branches split
	branches []tree // one for each label of variable
	parts    []tree // connected components
	constant int64  // bound minus the sum of the bounds of the parts
	// relaxed are alternative steps, without branches, that prove the weaker bound relaxedBound.
	relaxed      []Step
	relaxedBound int64
}

// proof returns a proof of a bound of at least target, and the proved bound. target is at most t.bound. If the relaxed
// steps prove the target, they replace the branches. This shortens the proof if the search explored more branches than
// the target needs.
func (t *tree) proof(target int64) (Node, int64) {
	if t.relaxed != nil && t.relaxedBound >= target {
		return Node{Steps: t.relaxed}, t.relaxedBound
	}
	proofNode, bound := Node{Shifts: t.shifts, Cuts: t.cuts, Steps: t.steps}, t.bound
	switch {
	case len(t.branches) > 0:
		proofNode.Variable = t.variable
		proofNode.Branches, bound = t.branchProofs(target)
	case len(t.parts) > 0:
		proofNode.Parts, bound = t.partProofs(target)
	}
	if len(t.cuts) > 0 {
		proofNode.Cutoff = t.cutoff
		bound = min(bound, t.cutoff)
	}
	return proofNode, bound
}

// branchProofs returns the proofs of the branches and their least bound. Each branch must prove the target.
func (t *tree) branchProofs(target int64) (list []Branch, bound int64) {
	bound = Forbidden
	for i := range t.branches {
		child, childBound := t.branches[i].proof(target)
		list = append(list, Branch{t.branches[i].label, child})
		bound = min(bound, childBound)
	}
	sorted.Func(list, func(a, b Branch) int { return a.Label - b.Label })
	return list, bound
}

// partProofs returns the proofs of the parts, and the sum of their bounds and of the constant. The amount by
// which this sum exceeds the target may be lost in the parts, the earlier ones first.
func (t *tree) partProofs(target int64) (list []Node, bound int64) {
	spare := t.constant - target // the amount by which the sum of the parts' bounds may fall
	for i := range t.parts {
		spare = add(spare, t.parts[i].bound)
	}
	bound = t.constant
	for i := range t.parts {
		partBound := t.parts[i].bound
		child, childBound := t.parts[i].proof(max(partBound-spare, 0))
		spare -= max(partBound-childBound, 0)
		list = append(list, child)
		bound = add(bound, childBound)
	}
	return list, bound
}
