package onnx

import (
	"errors"
	"fmt"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// An If whose condition is not known becomes a node that runs one of two graphs. Two things
// can be true of one branch only: that it cannot be typed, and how many dimensions its
// results have. A branch that cannot be typed is a mistake where it is taken, so it becomes
// a graph that says so. Where the results differ in their number of dimensions, and so what
// follows differs with them, what follows becomes part of both branches.

// rest is what follows a node: the later nodes of its graph, and behind these what follows
// the node that the graph stands for.
type rest struct {
	graph *pb.GraphProto
	from  int
	scope *scope
	frame *frame
	bind  []string // the names that the node's results have in the scope
}

// branch is a section that may have failed.
type branch struct {
	*section
	err error
}

func ifOp(n *node) []*val {
	cond := n.x(0)
	yes, no := n.body("then_branch"), n.body("else_branch")
	if cond.data != nil {
		if n.number(cond).Int() != 0 {
			return n.inline(yes)
		}
		return n.inline(no)
	}
	a, b := n.branch(yes, n.hints), n.branch(no, n.hints)
	taken, sizes := sizeCondition(cond)
	if sizes {
		n.elsewhere(a, yes, taken, false)
		n.elsewhere(b, no, taken.Not(), false)
	}
	if n.fork(a, b) {
		a.goOn(n)
		b.goOn(n)
		if sizes {
			n.elsewhere(a, yes, taken, true)
			n.elsewhere(b, no, taken.Not(), true)
		}
		n.final = n.chosen(cond, a, b)
		return nil
	}
	return n.chosen(cond, a, b)
}

// mostElsewhere bounds the sizes at which a branch is tried that cannot be converted at the hints.
const mostElsewhere = 32

// elsewhere converts a branch that cannot be at the hints, with what follows if that is part of it, at sizes at which
// it is taken: others are none of its business. It stays refused if it is at all that are tried.
func (n *node) elsewhere(b *branch, p *pb.GraphProto, taken sym.Bool, follows bool) {
	if b.err == nil {
		return
	}
	count := n.count
	for _, hints := range n.takenAt(taken) {
		n.count = count
		other := n.branch(p, hints)
		if follows {
			other.goOn(n)
		}
		if other.err == nil {
			*b = *other
			return
		}
	}
	n.count = count
}

// takenAt returns sizes of the symbols at which a condition on them holds, small ones first, all symbols alike; none
// where data decide it.
func (n *node) takenAt(cond sym.Bool) (list []map[string]int) {
	sizes := make([]int, 0, mostElsewhere+len(hints))
	for size := range mostElsewhere {
		sizes = append(sizes, size+1)
	}
	for _, h := range hints {
		sizes = append(sizes, h.first)
	}
	for _, size := range append(sizes, 0) {
		at := map[string]int{}
		for name := range n.hints {
			at[name] = size
		}
		if holds, err := cond.At(at); err == nil && holds {
			list = append(list, at)
		}
	}
	return list
}

// sizeCondition returns a condition that depends on integers alone; false where it is of other data.
func sizeCondition(x *val) (cond sym.Bool, ok bool) {
	if x.elements == nil || len(x.elements.list) != 1 || x.dtype().IsFloat() {
		return cond, false
	}
	e := x.elements.list[0]
	if cond = e.b; x.dtype() != tensor.Bool {
		cond = e.n.Ne(sym.Int{})
	}
	return cond, true
}

// sizesDecide returns a condition that depends on sizes alone; false where data decide.
func (n *node) sizesDecide(x *val) (cond sym.Bool, ok bool) {
	if cond, ok = sizeCondition(x); !ok {
		return cond, false
	}
	return cond, n.uses(cond.String())
}

// branch converts one branch for sizes of the symbols.
func (n *node) branch(p *pb.GraphProto, hints map[string]int) *branch {
	b := &branch{section: n.sectionAt(p.Name, hints)}
	b.try(n, func() (err error) {
		s := &scope{im: b.im, beyond: n.scope, vals: map[string]*val{}}
		if len(p.Input) > 0 {
			return fmt.Errorf("a graph of %d inputs cannot take 0 values", len(p.Input))
		}
		f := *n.frame
		f.depth++
		f.then, f.some = nil, false
		if err := b.im.initializers(p, s, &f); err != nil {
			return err
		}
		b.out, err = b.im.results(p, s, &f)
		return err
	})
	return b
}

// try converts a part of the branch and keeps its error, unless that is of the whole model.
func (b *branch) try(n *node, f func() error) {
	if b.err != nil {
		return
	}
	b.im.count = n.count
	b.err = func() (err error) {
		defer caught(&err)
		return f()
	}()
	n.count = b.im.count
	if l, m := (limit{}), (*memberRank)(nil); errors.As(b.err, &l) || errors.As(b.err, &m) {
		n.failf("%w", b.err)
	}
}

// fork reports whether what follows depends on which branch is taken: where results are not
// tensors of one dtype and one known number of dimensions.
func (n *node) fork(a, b *branch) bool {
	if a.err != nil || b.err != nil || len(a.out) != len(b.out) {
		return false
	}
	for i := range a.out {
		if !n.wants(i) {
			continue
		}
		if a.out[i].kind == isSequence && b.out[i].kind == isSequence && (a.out[i].packed != nil || b.out[i].packed != nil) {
			continue
		}
		if a.out[i].kind != isTensor || b.out[i].kind != isTensor {
			return true
		}
		o := a.outline(i).Join(b.outline(i))
		if o.Sizes == nil || !o.DType.Valid() {
			return true
		}
	}
	return false
}

// goOn converts what follows the node as part of the branch, whose results are then those of
// the outermost graph that follows.
func (b *branch) goOn(n *node) {
	for r := n.behind; r != nil; r = r.frame.then {
		done := false
		b.try(n, func() error {
			s := &scope{im: b.im, beyond: r.scope, vals: map[string]*val{}}
			for i, name := range r.bind {
				if name != "" && i < len(b.out) {
					s.vals[name] = b.out[i]
				}
			}
			f := *r.frame
			f.depth++
			f.some = false
			final, err := b.im.nodes(r.graph, r.from, s, &f)
			if b.out = final; final != nil || err != nil {
				done = true
				return err
			}
			for _, o := range r.graph.Output {
				x := s.lookup(o.Name)
				if x == nil {
					return fmt.Errorf("output %q is not made by any node", o.Name)
				}
				b.out = append(b.out, x)
			}
			return nil
		})
		if done || b.err != nil {
			return
		}
	}
}

// chosen makes the node that runs one of the branches.
func (n *node) chosen(cond *val, a, b *branch) []*val {
	sequences := n.sequencesOf(a, b)
	for _, x := range []*branch{a, b} {
		x.try(n, x.close)
	}
	switch {
	case a.err != nil && b.err != nil:
		n.failf("neither branch can be run: then_branch: %w; else_branch: %w", a.err, b.err)
	case a.err != nil:
		n.refuse(a, "then_branch", len(b.out))
	case b.err != nil:
		n.refuse(b, "else_branch", len(a.out))
	}
	if len(a.im.g.Outputs) != len(b.im.g.Outputs) {
		n.failf("then_branch gives %d values, else_branch %d", len(a.im.g.Outputs), len(b.im.g.Outputs))
	}
	attrs := graph.Attrs{"then_branch": a.im.g, "else_branch": b.im.g}
	operands := n.operandsOf(a.im.captured, b.im.captured)
	when, sizes := n.sizesDecide(cond)
	var out []*val
	if sizes {
		attrs["condition"] = when.String()
		out = n.emitN("if_sizes", len(a.im.g.Outputs), attrs, operands...)
	} else {
		out = n.emitN("if", len(a.im.g.Outputs), attrs, append([]any{cond}, operands...)...)
	}
	for i, o := range out {
		switch {
		case a.err != nil:
			o.outline = b.outline(i)
		case b.err != nil:
			o.outline = a.outline(i)
		default:
			o.outline = a.outline(i).Join(b.outline(i))
		}
		if sizes && o.outline.Sizes != nil {
			n.shapes[o.v] = n.chosenShape(when, a, b, i)
		}
	}
	return asSequences(out, sequences)
}

// chosenShape is the shape of a result of the branch that sizes choose. A branch that cannot be run has none.
func (n *node) chosenShape(when sym.Bool, a, b *branch, i int) []sym.Int {
	switch {
	case a.err != nil:
		return b.im.shapeOf(b.out[i])
	case b.err != nil:
		return a.im.shapeOf(a.out[i])
	}
	yes, no := a.im.shapeOf(a.out[i]), b.im.shapeOf(b.out[i])
	shape := make([]sym.Int, len(yes))
	for k := range shape {
		shape[k] = sym.Where(when, yes[k], no[k])
	}
	return shape
}

// refuse makes the branch a graph that says why it cannot be run.
func (n *node) refuse(b *branch, name string, results int) {
	err := b.err
	b.section = n.section(name)
	message := fmt.Sprintf("%s of %s cannot be run: %v", name, n.title(), err)
	for i, v := range b.im.g.ApplyN("raise", results, graph.Attrs{"message": message, "results": results}) {
		b.im.g.Output(fmt.Sprintf("none.%d", i), v)
	}
	if err := b.im.g.Err(); err != nil {
		n.failf("%w", err)
	}
}

// outline is what is known of a result.
func (b *section) outline(i int) graph.Outline {
	return (&node{importer: b.im}).outlineOf(b.out[i])
}
