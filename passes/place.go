package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Placed is a value that is written where the result of a node that joins it with others has it: which has the memory,
// the bytes that are not copied, and what that saves by [Plan.Cost], with what others take more to read it so.
type Placed struct {
	Value, Within string
	Bytes         int
	SavedNS       float64
}

// placeResults has operands of nodes that join them (concatenation) written where the result has them, where whoever
// makes and reads them can do so and it costs less than copies. A strategy that states the problem exactly has weighed
// most of that ([layout.Model]), and what it chose is done; of others, and beyond that, it decides after layouts are
// chosen, and finds all values in the layouts that are best with copies.
//
// It goes backward: where all operands of a node lie side by side in a larger result, as those of a dense block do, the
// node's own result is a slice of that, and nothing is copied at all.
func placeResults(p *Plan) error {
	if p.keepGoing { // what is lost may be a part of what is not
		return nil
	}
	var w *placer
	for _, n := range slices.Backward(p.Graph.Nodes) {
		ends.Look(p.ctx)
		if n.Op.Joins == nil {
			continue
		}
		if w == nil {
			w = newPlacer(p)
		}
		w.join(n)
	}
	p.Note("%s", counted(len(p.Placed), "value written in place", "values written in place"))
	return nil
}

// placer knows who reads values, and which must have memory of their own.
type placer struct {
	p       *Plan
	profile *layout.Profile
	readers graph.ByValue[[]*graph.Node]
	own     graph.ByValue[bool]    // by root
	costs   map[*graph.Node]priced // as values lie now; not of all nodes
}

func newPlacer(p *Plan) *placer {
	w := &placer{p: p, profile: p.profile, readers: graph.NewByValue[[]*graph.Node](p.Graph),
		own: graph.NewByValue[bool](p.Graph), costs: map[*graph.Node]priced{}}
	if !p.priced {
		w.profile = layout.For(p.profile, p.Graph)
	}
	for _, n := range p.Graph.Nodes {
		for i, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			again := slices.ContainsFunc(n.In[:i], func(b graph.Arg) bool { return b.Value == a.Value })
			if !again {
				w.readers.Set(a.Value, append(w.readers.At(a.Value), n))
			}
			if n.Op.Storage {
				w.own.Set(a.Value.Root(), true)
			}
		}
	}
	for _, o := range p.Graph.Outputs {
		w.own.Set(o.Value.Root(), true)
	}
	return w
}

// join has the result of a node lie where its operands do, or else operands where the result has them.
func (w *placer) join(n *graph.Node) {
	if n.Places() == nil || n.Out[0].Meta.Numel() == 0 {
		return
	}
	w.whole(n)
	for i, t := range n.Places() {
		place, known := t.Meta()
		if v := n.In[i].Value; known && v.Meta.DType == place.DType && v.Meta.Numel() > 0 {
			w.lay(v, n.Out[0], place, false)
		}
	}
}

// whole lays the result of a node out where its operands lie already, if that is side by side in one value.
func (w *placer) whole(n *graph.Node) {
	v := n.Out[0]
	m := v.Meta
	var home *graph.Value
	for _, a := range n.In {
		switch x := a.Value; {
		case x.Meta.Numel() == 0:
		case x.Within == nil || x.Meta.Rank() != m.Rank() || home != nil && x.Home() != home:
			return
		case home == nil:
			home = x.Home()
			m = m.WithStrides(home.Meta.Strides)
			m.Offset = x.Meta.Offset
		}
	}
	if home != nil {
		w.lay(v, home, m, true)
	}
}

// state is how a value lay before a trial.
type state struct {
	v      *graph.Value
	typ    tensor.Type
	meta   tensor.Meta
	alias  *graph.Value
	within *graph.Value
}

// trial lays a value and its views out, and notes whom that touches.
type trial struct {
	w      *placer
	before []state       // of what moves
	nodes  []*graph.Node // that compute: first the one that gives the value
	views  []*graph.Node
}

// lay lays a value out as m, a slice of another one, unless somebody cannot do with that or it costs more. There may be
// the operands that the value is made of: then all of them must lie where it would have them.
func (w *placer) lay(v, within *graph.Value, m tensor.Meta, there bool) {
	p := w.p
	if v.Within != nil || v.Alias != nil || v.Node == nil || v.Const != nil || v.Node.Impl == nil || w.own.At(v) ||
		v.Node.Op.Eager != nil || p.follow != nil && !p.follow.placed[v.Number()] || !numeric(v.Type) {
		return
	}
	t := &trial{w: w, nodes: []*graph.Node{v.Node}}
	t.touch(v)
	cost := t.cost()
	t.before = append(t.before, stateOf(v))
	if v.Within = within; v.Meta.SameAddresses(m) {
		m.Strides = v.Meta.Strides // where only the offset differs, strides of dimensions of size 1 stay
	}
	v.SetMeta(m)
	if there && !wholeInPlace(v.Node) || !t.holds() {
		t.undo()
		return
	}
	costs, after := t.costs()
	saved := cost - after
	chosen := p.within.At(v)
	if p.follow == nil && !chosen && saved <= 0 {
		t.undo()
		return
	}
	if p.Decisions != nil {
		if p.Decisions.placed == nil {
			p.Decisions.placed = map[int]bool{}
		}
		p.Decisions.placed[v.Number()] = true
	}
	for i, n := range t.nodes {
		w.costs[n] = costs[i]
	}
	if !chosen {
		p.SavedNS += saved
	}
	p.Placed = append(p.Placed, Placed{v.Name, within.Name, v.Meta.Bytes(), saved})
}

// wholeInPlace reports whether all operands with elements lie where the node's result has them.
func wholeInPlace(n *graph.Node) bool {
	c := n.Call()
	for i, a := range n.In {
		if !c.Placed(i) && a.Meta().Numel() > 0 {
			return false
		}
	}
	return true
}

func stateOf(v *graph.Value) state { return state{v, v.Type, v.Meta, v.Alias, v.Within} }

// touch notes who reads a value, and through views.
func (t *trial) touch(v *graph.Value) {
	for _, n := range t.w.readers.At(v) {
		if !n.IsView() {
			if !slices.Contains(t.nodes, n) {
				t.nodes = append(t.nodes, n)
			}
			continue
		}
		t.views = append(t.views, n)
		for _, o := range n.Out {
			t.touch(o)
		}
	}
}

// priced is what a node costs: its own work, and reading each operand, which do not depend on how other operands lie
// ([graph.Impl.Read]). Most nodes that a trial touches read many values, such as the joins of a dense block, and it
// moves one of them.
type priced struct {
	parts []float64 // own work, then by operand; nil where the op does not tell
	ns    float64   // their sum
}

// price prices a node as values lie now. known is what it cost before some of its operands moved; without parts: all of
// it is priced.
func (w *placer) price(n *graph.Node, known priced, moved func(*graph.Value) bool) (p priced) {
	if w.profile == nil {
		return p
	}
	p.parts = make([]float64, 1+len(n.In))
	asked := func(i int) bool { return known.parts == nil || i >= 0 && moved(n.In[i].Value) }
	copy(p.parts, known.parts)
	if !n.EachWork(asked, func(i int, work graph.Work) { p.parts[i+1] = float64(layout.PS(w.profile, work)) / 1e3 }) {
		return priced{}
	}
	for _, ns := range p.parts {
		p.ns += ns
	}
	return p
}

// cost is that of all nodes that a trial touches, as values lie before it. That of a node is the same until a trial
// that touches it is accepted.
func (t *trial) cost() (ns float64) {
	for _, n := range t.nodes {
		c, known := t.w.costs[n]
		if !known {
			c = t.w.price(n, c, nil)
			t.w.costs[n] = c
		}
		ns += c.ns
	}
	return ns
}

// costs are those of the nodes as values lie now, and their sum.
func (t *trial) costs() (each []priced, ns float64) {
	each = make([]priced, len(t.nodes))
	for i, n := range t.nodes {
		known := t.w.costs[n]
		if i == 0 {
			known = priced{} // its result is what moves
		}
		each[i] = t.w.price(n, known, t.moved)
		ns += each[i].ns
	}
	return each, ns
}

// moved reports whether the trial lays a value out otherwise.
func (t *trial) moved(v *graph.Value) bool {
	return slices.ContainsFunc(t.before, func(s state) bool { return s.v == v })
}

// holds infers views anew and reports whether they are views still, and all nodes do as they are laid out now.
func (t *trial) holds() bool {
	for _, n := range t.views {
		for _, o := range n.Out {
			t.before = append(t.before, stateOf(o))
		}
		if infer(n) != nil || !n.IsView() {
			return false
		}
		for _, o := range n.Out {
			if !n.Pin.Holds(o.Meta) {
				return false
			}
		}
	}
	for i, n := range t.nodes {
		if i == 0 && n.Holds() != nil || i > 0 && n.StillHolds(t.moved) != nil {
			return false
		}
	}
	return true
}

func (t *trial) undo() {
	for _, s := range t.before {
		s.v.Type, s.v.Meta, s.v.Alias, s.v.Within = s.typ, s.meta, s.alias, s.within
	}
}
