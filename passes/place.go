package passes

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Placed is a value written directly into its slice of another value: Bytes are not copied, and SavedNS is the saving
// by [Plan.Cost], less the extra cost for other readers of the strided slice.
type Placed struct {
	Value, Within string
	Bytes         int
	SavedNS       float64
}

// placeResults writes operands of concatenations directly into the result, where producers and other readers support
// the strided layout and the total cost is lower than with the copy. Strategies that solve the layout problem exactly
// have decided most of this ([layout.Model]), and these decisions are applied first. For other strategies, and for
// values outside the model, the pass decides greedily, after layouts were chosen for plans with the copies.
//
// Nodes are visited in reverse: in a chain of concatenations, as in a dense block, the result of one is then a slice of
// the next, and all values share one buffer.
func placeResults(p *Plan) error {
	if p.keepGoing { // a node that was dropped may produce a slice of a value that is kept
		return nil
	}
	var w *placer
	for _, n := range slices.Backward(p.Graph.Nodes) {
		interrupt.Check(p.ctx)
		if n.Op.ConcatDim == nil {
			continue
		}
		if w == nil {
			w = newPlacer(p)
		}
		w.placeOperands(n)
	}
	p.Note("%s", counted(len(p.Placed), "value written in place", "values written in place"))
	return nil
}

// placer holds the readers of values, and the values that need a buffer of their own.
type placer struct {
	p         *Plan
	profile   *layout.Profile
	readers   graph.ByValue[[]*graph.Node]
	ownMemory graph.ByValue[bool]    // by root value
	costs     map[*graph.Node]priced // costs at the current layouts, filled on demand
}

func newPlacer(p *Plan) *placer {
	w := &placer{p: p, profile: p.profile, readers: graph.NewByValue[[]*graph.Node](p.Graph),
		ownMemory: graph.NewByValue[bool](p.Graph), costs: map[*graph.Node]priced{}}
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
			if n.Op.ReadsStorage {
				w.ownMemory.Set(a.Value.Root(), true)
			}
		}
	}
	for _, o := range p.Graph.Outputs {
		w.ownMemory.Set(o.Value.Root(), true)
	}
	return w
}

// placeOperands makes the result of n a view of the buffer that already holds its operands, or else places operands in
// slices of the result.
func (w *placer) placeOperands(n *graph.Node) {
	if n.Places() == nil || n.Out[0].Meta.Numel() == 0 {
		return
	}
	w.placeResult(n)
	for i, t := range n.Places() {
		place, known := t.Meta()
		if v := n.In[i].Value; known && v.Meta.DType == place.DType && v.Meta.Numel() > 0 {
			w.place(v, n.Out[0], place, false)
		}
	}
}

// placeResult places the result of n where its operands already are, if they are adjacent slices of one value.
func (w *placer) placeResult(n *graph.Node) {
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
		w.place(v, home, m, true)
	}
}

// state is the layout of a value before a trial.
type state struct {
	v      *graph.Value
	typ    tensor.Type
	meta   tensor.Meta
	alias  *graph.Value
	within *graph.Value
}

// trial changes the layout of a value and of its views, and records the affected nodes.
type trial struct {
	w      *placer
	before []state       // of changed values
	nodes  []*graph.Node // affected nodes that compute; the first produces the value
	views  []*graph.Node
}

// place lays v out as m, a slice of another value, unless a node does not support that or the cost rises. If filled is
// set, the operands of v are in that memory already, and all must be where v needs them.
func (w *placer) place(v, within *graph.Value, m tensor.Meta, filled bool) {
	p := w.p
	if v.Within != nil || v.Alias != nil || v.Node == nil || v.Const != nil || v.Node.Impl == nil || w.ownMemory.At(v) ||
		v.Node.Op.RunDynamic != nil || p.follow != nil && !p.follow.placed[v.Number()] || !numeric(v.Type) {
		return
	}
	t := &trial{w: w, nodes: []*graph.Node{v.Node}}
	t.touch(v)
	cost := t.cost()
	t.before = append(t.before, stateOf(v))
	if v.Within = within; v.Meta.SameAddresses(m) {
		m.Strides = v.Meta.Strides // if only the offset differs, dimensions of size 1 keep their strides
	}
	v.SetMeta(m)
	if filled && !allInPlace(v.Node) || !t.holds() {
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

// allInPlace reports whether all nonempty operands of n are at their positions in its result.
func allInPlace(n *graph.Node) bool {
	c := n.Call()
	for i, a := range n.In {
		if !c.Placed(i) && a.Meta().Numel() > 0 {
			return false
		}
	}
	return true
}

func stateOf(v *graph.Value) state { return state{v, v.Type, v.Meta, v.Alias, v.Within} }

// touch adds the readers of v to the trial, through views.
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

// priced is the cost of a node in parts: its own work, and reading each operand, which does not depend on the layouts
// of the others ([graph.Impl.Read]). Most nodes of a trial read many values, for example the concatenations of a dense
// block, of which the trial moves one.
type priced struct {
	parts []float64 // own work, then one per operand; nil if the op gives no works
	ns    float64   // their sum
}

// price prices a node at the current layouts. It computes the parts of operands that moved and takes the others from
// known; if that has no parts it computes all.
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

// cost returns the total cost of the trial's nodes before the change. The cost of a node is reused until a trial that
// touches it is accepted.
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

// costs returns the costs of the trial's nodes at the current layouts, and their sum.
func (t *trial) costs() (each []priced, ns float64) {
	each = make([]priced, len(t.nodes))
	for i, n := range t.nodes {
		known := t.w.costs[n]
		if i == 0 {
			known = priced{} // all of it changes: the result moves
		}
		each[i] = t.w.price(n, known, t.moved)
		ns += each[i].ns
	}
	return each, ns
}

// moved reports whether the trial changes the layout of a value.
func (t *trial) moved(v *graph.Value) bool {
	return slices.ContainsFunc(t.before, func(s state) bool { return s.v == v })
}

// holds infers the views again, and reports whether they are still views and all nodes support the new layouts.
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
