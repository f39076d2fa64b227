package graph

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// Fuser makes one node of several of a graph that go over the same elements. It remembers what nodes compute, which
// of nodes that are alike and follow one another is found once. It is for passes, which do not change nodes between
// the first question and the end, and for one goroutine.
type Fuser struct {
	graph *Graph
	of    ByValue[*expr.Code] // by the first output
	rows  ByValue[*Rows]      // by the first output
	last  *Node
	code  *expr.Code // of last
	err   error
}

// NewFuser returns a Fuser for the nodes of a graph whose types are inferred.
func NewFuser(g *Graph) *Fuser {
	return &Fuser{graph: g, of: NewByValue[*expr.Code](g), rows: NewByValue[*Rows](g)}
}

// Together is a group of nodes to be made one.
type Together struct {
	// Nodes are two or more in a valid order, each with a [Fuser.Expression] or, where Mask is set, a [Fuser.Rows].
	Nodes []*Node
	// Head says that the first node is no loop but has a tail, the others: see [Fuser.Heads]. Mask is nil then.
	Head bool
	// Attention says that the first and the last node are products of matrices, and that those between go over rows of
	// what the first makes: see [Fuser.Attends]. What they fold follows.
	Attention bool
	// Mask marks the dimensions that nodes fold, of the shape to which all that the group reads is broadcast; nil
	// if none does. Split, where it is not 0, has dimension 1 of that shape seen as two ([Rows.Split]).
	Mask  []bool
	Split int
}

// errNoExpression is why most nodes compute nothing that a loop of an expression does.
var errNoExpression = errors.New("is stated by no expression")

// Expression returns what a node computes for one element, over operands and results as memory holds them, by its
// own operands. The error says why it is no loop of an expression.
func (f *Fuser) Expression(n *Node) (*expr.Code, error) {
	switch {
	case f == nil || n == nil || n.Op == nil || !n.Op.elementwise() || len(n.Out) == 0:
		return nil, errNoExpression
	case f.of.At(n.Out[0]) != nil:
		return f.of.At(n.Out[0]), nil
	}
	if !n.asks(f.last) {
		f.code, f.err = n.expression()
	}
	f.last = n
	if f.err == nil {
		f.of.Set(n.Out[0], f.code)
	}
	return f.code, f.err
}

// expression is what the node computes for one element.
func (n *Node) expression() (*expr.Code, error) {
	for _, a := range n.In {
		if a.Kind == Null {
			return nil, errors.New("leaves an operand out")
		}
	}
	for _, v := range n.Out {
		if v.Alias != nil {
			return nil, errors.New("makes a view")
		}
	}
	c, err := n.Op.expression(n.Call())
	if err == nil && c == nil {
		err = errNoExpression
	}
	return c, err
}

// Rows returns what a node computes as an expression over rows: nil for one that has none, and where no machine code
// can be made of loops, which alone makes rows fast.
func (f *Fuser) Rows(n *Node) *Rows {
	if f == nil || n == nil || n.Op == nil || n.Op.Rows == nil || len(n.Out) == 0 || !loops.Compiles() {
		return nil
	}
	if r := f.rows.At(n.Out[0]); r != nil {
		return r
	}
	r := n.rows()
	if r != nil {
		f.rows.Set(n.Out[0], r)
	}
	return r
}

func (n *Node) rows() *Rows {
	c := n.Call()
	r, err := n.Op.Rows(c)
	if err != nil || r == nil || len(r.Mask) != r.rank(c.Meta(0).Rank()) {
		return nil
	}
	for i, a := range c.In {
		if a.Kind == TensorArg && !slices.Contains(r.In, i) {
			return nil // some form of the op that is no fold of rows
		}
	}
	return r
}

// Fuse makes one node of each of several groups of nodes, and gives it the place of the last of them. No node is in
// two groups; at the place of the last of a group, all that the others read is made, and nobody has read what they
// make. Values of theirs that keep says are results, the others are gone. It returns the new nodes, in the order of
// the groups. After an error, which names the last node of a group, the graph is as it was.
func (f *Fuser) Fuse(groups []Together, keep func(*Value) bool) ([]*Node, error) {
	if f == nil || f.graph == nil || keep == nil {
		return nil, errors.New("nodes are fused by a Fuser of their graph, and somebody must say what is kept")
	}
	g, made, gone := f.graph, make([]*Node, len(groups)), NewByValue[bool](f.graph)
	instead := make(map[*Node]*Node, len(groups))
	for i, t := range groups {
		parts := t.Nodes
		if err := g.ended(); err != nil {
			return nil, err
		}
		n, err := f.whole(t, keep)
		if err != nil {
			if len(parts) > 0 && parts[len(parts)-1] != nil {
				err = g.Fail(parts[len(parts)-1], err)
			}
			return nil, err
		}
		for _, m := range parts {
			if gone.At(m.Out[0]) {
				return nil, g.Fail(m, errors.New("it is in two groups"))
			}
			gone.Set(m.Out[0], true)
		}
		made[i], instead[parts[len(parts)-1]] = n, n
	}
	if len(groups) == 0 {
		return nil, nil
	}
	nodes := make([]*Node, 0, len(g.Nodes))
	for _, n := range g.Nodes {
		switch w := instead[n]; {
		case w != nil:
			nodes = append(nodes, w)
		case len(n.Out) == 0 || !gone.At(n.Out[0]):
			nodes = append(nodes, n)
		}
	}
	for _, n := range made {
		for i, v := range n.Out {
			v.Node, v.Index = n, i
		}
		g.numberNode(n)
	}
	g.Nodes = slices.Clip(nodes)
	g.names = &names{of: g}
	return made, nil
}

// whole returns the node that stands for parts, of which the graph knows nothing yet.
func (f *Fuser) whole(t Together, keep func(*Value) bool) (*Node, error) {
	parts := t.Nodes
	if len(parts) < 2 {
		return nil, errors.New("one node needs no other to stand for it")
	}
	w := &whole{fusion: &Fusion{Parts: make([]FusedPart, 0, len(parts)), Mask: slices.Clone(t.Mask),
		Split: t.Split}, node: &Node{Op: Fused}, at: make(map[*Value][2]int, len(parts)), operand: map[seenValue]int{}}
	for i, m := range parts {
		if m == nil || m.Op == nil || len(m.Out) == 0 || m.Out[0].graph != f.graph {
			return nil, fmt.Errorf("part %d is no node of the graph", i)
		}
	}
	if err := w.gather(f, t, keep); err != nil {
		return nil, err
	}
	n, last := w.node, parts[len(parts)-1]
	streams := len(n.In) - w.fusion.Head + min(1, w.fusion.Head) + len(n.Out)
	switch {
	case len(n.Out) == 0:
		return nil, errors.New("nobody needs what the parts make")
	case len(n.In) == 0 || streams > expr.MaxOperands:
		return nil, fmt.Errorf("%d operands and %d results are not for one loop", len(n.In), len(n.Out))
	}
	n.Attrs, n.Name, n.Part = w.fusion, last.Name, last.Part
	return n, w.state(f, parts)
}

// gather adds all parts.
func (w *whole) gather(f *Fuser, t Together, keep func(*Value) bool) error {
	if t.Attention {
		return w.attention(f, t.Nodes, keep)
	}
	for i, m := range t.Nodes {
		add := func() error { return w.add(i, m, f.channels(m, t), keep) }
		if i == 0 && t.Head {
			add = func() error { return w.head(m, keep) }
		}
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// whole gathers what a fused node is made of.
type whole struct {
	fusion  *Fusion
	node    *Node
	at      map[*Value][2]int // what parts make, by part and output
	operand map[seenValue]int
}

// seenValue is what comes from outside, and whether it is a vector along dimension 1: one value may be both.
type seenValue struct {
	*Value
	along bool
}

// channels tells of the operands of a part whether they are vectors along dimension 1.
func (f *Fuser) channels(m *Node, t Together) func(k int) bool {
	var r *Rows
	if t.Mask != nil && !m.Op.elementwise() {
		r = f.Rows(m)
	}
	return func(k int) bool { return r != nil && r.along(slices.Index(r.In, k)) }
}

// head adds the first part, which is no loop.
func (w *whole) head(m *Node, keep func(*Value) bool) error {
	op := m.Op.tailed()
	if op == nil {
		return fmt.Errorf("%q %w", m.Name, errNoTail)
	}
	p := FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, In: make([]FusedArg, len(m.In)), Outs: len(m.Out)}
	for k, a := range m.In {
		if p.In[k] = (FusedArg{Part: -1, Place: k}); a.Kind == Null {
			p.In[k].Place = -1
		}
	}
	w.node.Op, w.node.In, w.node.Pin = op, slices.Clone(m.In), m.Pin
	w.fusion.Head, w.fusion.Channels = len(m.In), make([]bool, len(m.In))
	w.makes(0, m, keep)
	w.fusion.Parts = append(w.fusion.Parts, p)
	return nil
}

// makes notes what part i makes.
func (w *whole) makes(i int, m *Node, keep func(*Value) bool) {
	for k, v := range m.Out {
		w.at[v] = [2]int{i, k}
		if keep(v) {
			w.fusion.Results = append(w.fusion.Results, [2]int{i, k})
			w.node.Out = append(w.node.Out, v)
		}
	}
}

// add adds part i.
func (w *whole) add(i int, m *Node, along func(k int) bool, keep func(*Value) bool) error {
	p := FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, In: make([]FusedArg, 0, len(m.In)), Outs: len(m.Out)}
	for k, a := range m.In {
		switch made, inner := w.at[a.Value]; {
		case a.Kind == NumberArg:
			p.In = append(p.In, FusedArg{Number: a.Number})
		case a.Kind == Null:
			return fmt.Errorf("operand %d of %q is left out", k, m.Name)
		case inner && along(k):
			return fmt.Errorf("operand %d of %q lies along another dimension", k, m.Name)
		case inner:
			p.In = append(p.In, FusedArg{Part: made[0], Place: made[1]})
		default:
			seen := seenValue{a.Value, along(k)}
			place, known := w.operand[seen]
			if !known {
				place = len(w.node.In)
				w.operand[seen] = place
				w.node.In = append(w.node.In, a)
				w.fusion.Channels = append(w.fusion.Channels, seen.along)
			}
			p.In = append(p.In, FusedArg{Part: -1, Place: place})
		}
	}
	w.makes(i, m, keep)
	w.fusion.Parts = append(w.fusion.Parts, p)
	return nil
}

// state puts the expressions of the parts together.
func (w *whole) state(f *Fuser, parts []*Node) error {
	var dtypes []tensor.DType
	head, shift := w.fusion.Head, 0 // from an operand of the node to that of the expression
	if head > 0 {
		dtypes, shift = append(dtypes, Of(parts[0].Out[0]).Type().DType), 1-head
	}
	for _, a := range w.node.In[head:] {
		dtypes = append(dtypes, a.Type().DType)
	}
	b := expr.NewBuilder(dtypes...)
	made := make([][]expr.Output, len(parts))
	for i, m := range parts {
		switch attends := w.fusion.Seen != nil; {
		case i == 0 && head > 0:
			made[i] = []expr.Output{b.Real(b.Load(0))}
			continue
		case attends && (i == len(parts)-1 || showsAlike(m)): // it makes nothing of single elements
			made[i] = made[w.fusion.Parts[i].In[0].Part]
			continue
		}
		code, of, err := f.part(m, w.fusion.Mask != nil)
		if err != nil {
			return fmt.Errorf("%q: %w", m.Name, err)
		}
		in := w.fusion.Parts[i].In
		made[i] = b.Inline(code, func(operand, part int) expr.Value {
			a := in[of(operand)]
			switch {
			case a.Number.IsSet(): // that the op takes as an element, as where and masked_fill do
				return b.Number(code.In[operand], a.Number, part)
			case a.Part >= 0 && part == 0:
				return made[a.Part][a.Place].Re
			case a.Part >= 0:
				return made[a.Part][a.Place].Im
			case part == 0:
				return b.Load(a.Place + shift)
			}
			return b.LoadImag(a.Place + shift)
		})
	}
	out := make([]expr.Output, len(w.fusion.Results))
	for i, r := range w.fusion.Results {
		out[i] = made[r[0]][r[1]]
	}
	code, err := b.Build(out...)
	w.fusion.code = code
	if err == nil && head > 0 && w.fusion.into() < 0 {
		err = errors.New("no result has room for what the head makes")
	}
	w.fusion.effort = sync.OnceValue(func() Effort { return EffortOf(code) })
	return err
}

// part returns the expression of a part, and which operand of the node one of the expression is.
func (f *Fuser) part(n *Node, rows bool) (code *expr.Code, of func(int) int, err error) {
	if rows && !n.Op.elementwise() {
		r := f.Rows(n)
		if r == nil {
			return nil, nil, errNoExpression
		}
		return r.Code, func(i int) int { return r.In[i] }, nil
	}
	code, err = f.Expression(n)
	return code, func(i int) int { return i }, err
}
