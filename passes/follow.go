package passes

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// Decisions are what planning a graph found by searching and pricing: what is computed ahead, what runs as one,
// layouts and implementations, and the copies that these need. The same graph with other sizes is planned by them
// without a search: see [Options.Follow]. They are of the list of passes that recorded them, and immutable.
type Decisions struct {
	folded []map[int]bool // by pass that folds: the numbers of its nodes
	groups []grouped
	nodes  []signature // of the graph for which layouts were chosen
	layout *layout.Assignment
	placed map[int]bool // the numbers of the values that are written within others
}

// grouped is a group of nodes, by their numbers, in a valid order.
type grouped struct {
	nodes []int
	head  bool // the first is that
	// attends says that they are an attention
	attends bool
	mask    []bool
	split   int
}

// signature is what a node must be for decisions to be of it, whatever sizes are.
type signature struct {
	op      *graph.Op
	number  int
	outputs int
	in      []int // numbers of the operands that are values, negative for others
}

// Misfit is the error of decisions that are not for a graph: for its sizes other nodes would run, or values would lie
// otherwise, than they say. The graph is to be planned by itself.
type Misfit struct{ Why string }

// Error tells what comes otherwise.
func (e *Misfit) Error() string { return "the decisions do not fit: " + e.Why }

func misfit(format string, args ...any) error { return &Misfit{fmt.Sprintf(format, args...)} }

func signatureOf(n *graph.Node) signature {
	s := signature{op: n.Op, number: n.Number(), outputs: len(n.Out), in: make([]int, len(n.In))}
	for i, a := range n.In {
		s.in[i] = -1
		if a.Kind == graph.TensorArg {
			s.in[i] = a.Value.Number()
		}
	}
	return s
}

// is reports whether a node has the signature.
func (s *signature) is(n *graph.Node) bool {
	if s.op != n.Op || s.number != n.Number() || s.outputs != len(n.Out) || len(s.in) != len(n.In) {
		return false
	}
	for i, a := range n.In {
		if number := s.in[i]; a.Kind == graph.TensorArg && a.Value.Number() != number ||
			a.Kind != graph.TensorArg && number >= 0 {
			return false
		}
	}
	return true
}

// folding returns the numbers of the nodes that the fold pass which now runs is to fold; nil where it decides.
func (p *Plan) folding() map[int]bool {
	at := p.foldings
	p.foldings++
	switch {
	case p.follow != nil && at < len(p.follow.folded):
		return p.follow.folded[at]
	case p.follow != nil:
		return map[int]bool{}
	case p.Decisions != nil:
		p.Decisions.folded = append(p.Decisions.folded, map[int]bool{})
	}
	return nil
}

// noteFolded records that a node folds.
func (p *Plan) noteFolded(n *graph.Node) {
	if p.Decisions != nil {
		p.Decisions.folded[p.foldings-1][n.Number()] = true
	}
}

// noteGroups records groups.
func (p *Plan) noteGroups(groups []graph.Together) {
	if p.Decisions == nil {
		return
	}
	for _, t := range groups {
		d := grouped{nodes: make([]int, len(t.Nodes)), head: t.Head, attends: t.Attention, mask: t.Mask, split: t.Split}
		for i, n := range t.Nodes {
			d.nodes[i] = n.Number()
		}
		p.Decisions.groups = append(p.Decisions.groups, d)
	}
}

// followGroups makes the groups that were decided.
func (g *grouper) followGroups() error {
	byNumber := make(map[int]*graph.Node, len(g.p.Graph.Nodes))
	for _, n := range g.p.Graph.Nodes {
		byNumber[n.Number()] = n
	}
	for _, d := range slices.Backward(g.p.follow.groups) {
		c := &cluster{space: space{mask: d.mask, split: d.split}, results: 1}
		for _, number := range slices.Backward(d.nodes) {
			n := byNumber[number]
			if n == nil || len(n.Out) == 0 {
				return misfit("a node of a group is not there")
			}
			c.nodes = append(c.nodes, n)
			g.of.Set(n.Out[0], c)
		}
		if d.attends {
			nodes := slices.Clone(c.nodes)
			slices.Reverse(nodes)
			if err := g.attended(nodes); err != nil {
				return err
			}
			c.attends = true
			g.clusters = append(g.clusters, c)
			continue
		}
		if d.head {
			c.head = c.nodes[len(c.nodes)-1]
		}
		if err := g.fits(c); err != nil {
			return err
		}
		g.clusters = append(g.clusters, c)
	}
	return g.build()
}

// fits reports where the nodes of a group that was decided go over different elements now.
func (g *grouper) fits(c *cluster) error {
	spaces := make([]space, 0, len(c.nodes))
	loops := c.nodes
	if c.head != nil {
		loops = loops[:len(loops)-1]
	}
	for _, n := range loops {
		s, why := g.loopOf(n)
		if why != "" {
			return misfit("%s %s", n.Name, why)
		}
		spaces = append(spaces, s)
		if s.mask != nil || c.space.shape == nil {
			c.space.shape = s.shape
		}
		c.space.cut = c.space.cut || s.cut
		if s.mask != nil && !g.fuser.Rows(n).Fits(s.shape) {
			return misfit("the rows of %s are for a kernel of their own", n.Name)
		}
	}
	for i, s := range spaces {
		if joint(s, c.space).shape == nil && !c.behind(s, c.nodes[i]) {
			return misfit("%s goes over other elements than what it is grouped with", c.nodes[i].Name)
		}
	}
	if why := g.inLine(c.space, c.nodes...); why != "" {
		return misfit("%s: %s", c.nodes[len(c.nodes)-1].Name, why)
	}
	if c.head != nil {
		if err := g.headed(c); err != nil {
			return err
		}
	}
	g.guard(c)
	return nil
}

// behind reports whether a node, of space s, goes over what is left of the group's rows without their dimensions, and
// reads of what the group does not make nothing but single elements: see [unite].
func (c *cluster) behind(s space, n *graph.Node) bool {
	if c.space.mask == nil || c.space.split != 0 || s.mask != nil || !slices.Equal(s.shape, c.space.left()) {
		return false
	}
	return !slices.ContainsFunc(n.In, func(a graph.Arg) bool {
		return a.Kind == graph.TensorArg && !slices.Contains(c.nodes, a.Value.Node) && a.Value.Meta.Numel() != 1
	})
}

// noteLayouts records an assignment before it is applied.
func (p *Plan) noteLayouts(a *layout.Assignment) {
	if p.Decisions == nil {
		return
	}
	p.Decisions.layout = a
	for _, n := range p.Graph.Nodes {
		p.Decisions.nodes = append(p.Decisions.nodes, signatureOf(n))
	}
}

// followLayouts applies the assignment that was decided. Outputs must come out as they are in the graph as written, and
// implementations be able to do what they are to.
func (p *Plan) followLayouts() error {
	d := p.follow
	if d.layout == nil || len(d.nodes) != len(p.Graph.Nodes) {
		return misfit("there are %d nodes, and %d were decided", len(p.Graph.Nodes), len(d.nodes))
	}
	for i, n := range p.Graph.Nodes {
		if !d.nodes[i].is(n) {
			return misfit("%s is another node than was decided", n.Name)
		}
	}
	a := d.layout.Of(p.Graph)
	p.weighed = a.Final
	written, pins := make([]layoutOf, len(p.Graph.Outputs)), make([]graph.Pin, len(p.Graph.Outputs))
	for i, o := range p.Graph.Outputs {
		pins[i] = o.Demand()
		written[i] = layoutOf{typ: o.Value.Type, meta: o.Value.Meta}
	}
	l := newLayouter(p)
	l.follows = true
	if err := l.apply(a); err != nil {
		return err
	}
	for i, o := range p.Graph.Outputs {
		m, pin := o.Value.Meta, pins[i]
		if !pin.Holds(m) || !pin.Lays() && !m.SameLayout(written[i].meta) {
			return misfit("output %q would be laid out as %v, and is %v as written", o.Name, m, written[i].meta)
		}
		if !pin.Lays() {
			o.Value.Type.SameLayout(written[i].typ) // a guard where sizes are not known
		}
	}
	return nil
}

// able returns by which implementation and on which way a node can be computed as was decided: its operands and results
// are inferred, its results not laid out yet. Where that which was chosen is not for these sizes, as some are for few
// rows only, it is the first that gives the same layouts.
func (l *layouter) able(n *graph.Node, c *layout.Choice) (*graph.Impl, graph.Walk, error) {
	switch {
	case c.Impl == nil && len(n.Op.Impls) > 0 && !n.IsView():
		return nil, c.Walk, misfit("%s is no view", n.Name)
	case c.Impl == nil || n.IsView():
		return c.Impl, c.Walk, nil
	}
	call := n.Call()
	candidates := []tensor.Order{c.Walk.Order}
	if len(c.Walk.Out) > 0 && c.Walk.Out[0] != c.Walk.Order {
		candidates = append(candidates, c.Walk.Out[0])
	}
	for _, w := range c.Impl.Walks(call, candidates) {
		if w.Order == c.Walk.Order && l.laysAlike(n, w, c.Walk) {
			return c.Impl, c.Walk, nil
		}
	}
	for i := range n.Op.Impls {
		m := &n.Op.Impls[i]
		if n.Pin.Impl != "" && m.Name != n.Pin.Impl || l.plan.exact && m.Inexact {
			continue
		}
		for _, w := range m.Walks(call, candidates) {
			if l.laysAlike(n, w, c.Walk) && m.Reads(call, w) {
				return m, w, nil
			}
		}
	}
	return nil, c.Walk, misfit("no implementation of %s gives the layout that was decided", n.Name)
}

// asWritten reports whether the storage that an op reads through an operand is that of the graph as written: nothing
// that the operand shows was moved; or a copy with the very strides stands for it, and it has memory of its own.
func (l *layouter) asWritten(v *graph.Value, by *layout.Copy) bool {
	if by != nil && !by.Bare {
		return by.Strides != nil && !by.View && v.Alias == nil && v.Node != nil && v.Node.Op.Kind != graph.View
	}
	if by != nil && by.Value != v { // something else stands for it, which has to begin where its memory does
		if v = by.Value; v.Alias != nil || v.Meta.Offset != 0 {
			return false
		}
	}
	for ; v != nil; v = v.Alias {
		if l.moved[v] {
			return false
		}
	}
	return true
}

// laysAlike reports whether two walks lay the results of a node out at the same addresses.
func (l *layouter) laysAlike(n *graph.Node, a, b graph.Walk) bool {
	for i, v := range n.Out {
		if v.Alias == nil && !a.Lay(i, v.Meta).SameAddresses(b.Lay(i, v.Meta)) {
			return false
		}
	}
	return true
}

// done reports where a node that is laid out does not read its operands, or does not keep to its pin.
func (l *layouter) done(n *graph.Node) error {
	for _, v := range n.Out {
		if !n.Pin.Holds(v.Meta) {
			return misfit("%q, %v, is pinned to %v", v.Name, v.Meta, n.Pin)
		}
	}
	if n.Impl != nil && !n.IsView() && n.Impl.Selective() && !n.Impl.Reads(n.Call(), n.Walk) {
		return misfit("implementation %s of %s does not read its operands", n.Impl.Name, n.Name)
	}
	return nil
}
