package wcsp

import "github.com/graphrun/graphrun/internal/sorted"

// proofNode is a node of the tree that proves a lower bound, under construction. The search makes a node for each
// subproblem; toNode converts it to a [Node] of the [Proof].
type proofNode struct {
	bound int64 // lower bound that the node proves
	label int   // label of the parent's variable, if the node is a branch

	// As in Node.
	shifts   []Shift
	cuts     []Cut
	cutoff   int64 // if there are cuts, bound is at most cutoff
	steps    []Step
	variable int
	branches []proofNode
	parts    []proofNode

	constant int64 // bound minus the sum of the bounds of the parts
	// relaxed are alternative steps, without branches, that prove the weaker bound relaxedBound.
	relaxed      []Step
	relaxedBound int64
}

// toNode returns a proof of a bound of at least target, and the proved bound. target is at most p.bound. If the relaxed
// steps prove the target, they replace the branches. This shortens the proof if the search explored more branches than
// the target needs.
func (p *proofNode) toNode(target int64) (Node, int64) {
	if p.relaxed != nil && p.relaxedBound >= target {
		return Node{Steps: p.relaxed}, p.relaxedBound
	}
	node, bound := Node{Shifts: p.shifts, Cuts: p.cuts, Steps: p.steps}, p.bound
	switch {
	case len(p.branches) > 0:
		node.Variable = p.variable
		node.Branches, bound = p.branchProofs(target)
	case len(p.parts) > 0:
		node.Parts, bound = p.partProofs(target)
	}
	if len(p.cuts) > 0 {
		node.Cutoff = p.cutoff
		bound = min(bound, p.cutoff)
	}
	return node, bound
}

// branchProofs returns the proofs of the branches and their least bound. Each branch must prove the target.
func (p *proofNode) branchProofs(target int64) (list []Branch, bound int64) {
	bound = Forbidden
	for i := range p.branches {
		child, childBound := p.branches[i].toNode(target)
		list = append(list, Branch{p.branches[i].label, child})
		bound = min(bound, childBound)
	}
	sorted.Func(list, func(a, b Branch) int { return a.Label - b.Label })
	return list, bound
}

// partProofs returns the proofs of the parts, and the sum of their bounds and of the constant. If this sum exceeds the
// target, parts may prove lower bounds, which need shorter proofs. Earlier parts use up the excess first.
func (p *proofNode) partProofs(target int64) (list []Node, bound int64) {
	spare := p.constant - target // the amount by which the sum of the parts' bounds may fall
	for i := range p.parts {
		spare = add(spare, p.parts[i].bound)
	}
	bound = p.constant
	for i := range p.parts {
		partBound := p.parts[i].bound
		child, childBound := p.parts[i].toNode(max(partBound-spare, 0))
		spare -= max(partBound-childBound, 0)
		list = append(list, child)
		bound = add(bound, childBound)
	}
	return list, bound
}

// proofSteps returns the steps of an elimination for a proof, if one is requested.
func (s *search) proofSteps(reduced *elimination) []Step {
	if !s.wantProof {
		return nil
	}
	list := make([]Step, 0, len(reduced.steps))
	for _, step := range reduced.steps {
		proofStep := Step{Variable: reduced.problemVariables[step.variable]}
		for _, derived := range step.buckets {
			bucket := Bucket{From: []int{}, Scope: make([]int, len(derived.message.scope)),
				Table: derived.message.table}
			for _, summand := range derived.functions {
				bucket.From = append(bucket.From, summand.proofTerms...)
			}
			sorted.Ints(bucket.From)
			s.proofEntries += len(bucket.Table)
			for i, v := range derived.message.scope {
				bucket.Scope[i] = reduced.problemVariables[v]
			}
			proofStep.Buckets = append(proofStep.Buckets, bucket)
		}
		list = append(list, proofStep)
	}
	return list
}
