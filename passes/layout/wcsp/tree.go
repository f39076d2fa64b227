package wcsp

import "slices"

// tree is a node of a proof in the making.
type tree struct {
	label    int // of the variable that the parent is split on
	shifts   []Shift
	cuts     []Cut
	cutoff   int64 // with cuts: what it is worth at most
	bound    int64
	constant int64 // what the bound is more than the sum of those of the parts
	steps    []Step
	variable int
	branches []tree
	parts    []tree
	// relaxed are other steps, without branches after them, for a bound that is looser.
	relaxed []Step
	loose   int64
}

// node returns a proof of at least the target, which is at most the bound, and what it proves. Where relaxed steps are
// enough they are taken: a search that was cut short has left much that the bound does not need, and one that was not
// has split on what the best assignment, had it been known, would have cut off.
func (t *tree) node(target int64) (Node, int64) {
	if t.relaxed != nil && t.loose >= target {
		return Node{Steps: t.relaxed}, t.loose
	}
	n, worth := Node{Shifts: t.shifts, Cuts: t.cuts, Steps: t.steps}, t.bound
	switch {
	case len(t.branches) > 0:
		n.Variable, worth = t.variable, Forbidden
		for i := range t.branches {
			b := &t.branches[i]
			below, w := b.node(target)
			n.Branches = append(n.Branches, Branch{b.label, below})
			worth = min(worth, w)
		}
		slices.SortFunc(n.Branches, func(a, b Branch) int { return a.Label - b.Label })
	case len(t.parts) > 0:
		spare := t.constant - target
		for i := range t.parts {
			spare = add(spare, t.parts[i].bound)
		}
		worth = t.constant
		for i := range t.parts {
			p := &t.parts[i]
			below, w := p.node(max(p.bound-spare, 0))
			spare -= max(p.bound-w, 0)
			n.Parts = append(n.Parts, below)
			worth = add(worth, w)
		}
	}
	if len(t.cuts) > 0 {
		n.Cutoff = t.cutoff
		worth = min(worth, t.cutoff)
	}
	return n, worth
}
