package fusion

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// Fuser makes one node of several nodes of a graph. It caches the expressions of nodes. It is for passes, which do
// not change nodes while they use it, and for one goroutine.
type Fuser struct {
	graph *graph.Graph
	of    graph.ByValue[*expr.Code]  // by the first output
	rows  graph.ByValue[*graph.Rows] // by the first output
	last  *graph.Node
	code  *expr.Code // of last
	err   error
}

// NewFuser returns a Fuser for the nodes of a graph whose types are inferred.
func NewFuser(g *graph.Graph) *Fuser {
	return &Fuser{graph: g, of: graph.NewByValue[*expr.Code](g), rows: graph.NewByValue[*graph.Rows](g)}
}

// Together is a group of nodes that become one.
type Together struct {
	// Nodes are two or more in a valid order, each with a [Fuser.Expression] or, if Mask is set, a [Fuser.Rows].
	Nodes []*graph.Node
	// Anchor says that the first node is an anchor, and the others are its epilogue: see [Fuser.Anchors]. Mask is nil.
	Anchor bool
	// Attention says that the nodes are an attention: see [Fuser.Attends]. Mask is then derived.
	Attention bool
	// Mask marks the dimensions that nodes fold, in the shape to which all operands of the group are broadcast; nil if no
	// node folds. If Split is not 0, dimension 1 of that shape is seen as two ([graph.Rows.Split]).
	Mask  []bool
	Split int
}

// errNoExpression is the reason why most nodes are no loop of an expression.
var errNoExpression = errors.New("is stated by no expression")

// Expression returns what a node computes for one element, by its own operands, in the dtypes that operands and
// results have in memory. The error is the reason why there is none.
func (f *Fuser) Expression(n *graph.Node) (*expr.Code, error) {
	switch {
	case f == nil || n == nil || n.Op == nil || n.Op.Expression == nil || len(n.Out) == 0:
		return nil, errNoExpression
	case f.of.At(n.Out[0]) != nil:
		return f.of.At(n.Out[0]), nil
	}
	if !n.InfersLike(f.last) {
		f.code, f.err = expressionOf(n)
	}
	f.last = n
	if f.err == nil {
		f.of.Set(n.Out[0], f.code)
	}
	return f.code, f.err
}

// expressionOf is [Fuser.Expression] without the cache.
func expressionOf(n *graph.Node) (*expr.Code, error) {
	for _, a := range n.In {
		if a.Kind == graph.Null {
			return nil, errors.New("leaves an operand out")
		}
	}
	for _, v := range n.Out {
		if v.Alias != nil {
			return nil, errors.New("makes a view")
		}
	}
	c, err := n.Op.Expression(n.Call())
	if err == nil && c == nil {
		err = errNoExpression
	}
	return c, err
}

// Rows returns what a node computes as an expression over rows; nil if it has none, or if loops are not compiled to
// machine code: only machine code makes row programs fast.
func (f *Fuser) Rows(n *graph.Node) *graph.Rows {
	if f == nil || n == nil || n.Op == nil || n.Op.Rows == nil || len(n.Out) == 0 || !loops.Compiles() {
		return nil
	}
	if r := f.rows.At(n.Out[0]); r != nil {
		return r
	}
	r := rowsOf(n)
	if r != nil {
		f.rows.Set(n.Out[0], r)
	}
	return r
}

func rowsOf(n *graph.Node) *graph.Rows {
	c := n.Call()
	r, err := n.Op.Rows(c)
	if err != nil || r == nil || len(r.Mask) != r.Rank(c.Meta(0).Rank()) {
		return nil
	}
	for i, a := range c.In {
		if a.Kind == graph.TensorArg && !slices.Contains(r.In, i) {
			return nil // some form of the op that is no fold of rows
		}
	}
	return r
}

// Fuse makes one node of each of several groups, in the place of the group's last node. No node may be in two groups.
// At the place of a group's last node, all operands of the group exist, and no other node has used its results.
// Values that keep accepts are results; the others are gone. It returns the new nodes in the order of the groups.
// After an error, which names the last node of a group, the graph is unchanged.
func (f *Fuser) Fuse(groups []Together, keep func(*graph.Value) bool) ([]*graph.Node, error) {
	if f == nil || f.graph == nil || keep == nil {
		return nil, errors.New("nodes are fused by a Fuser of their graph, and somebody must say what is kept")
	}
	g, made, nodes := f.graph, make([]*graph.Node, len(groups)), make([][]*graph.Node, len(groups))
	for i, t := range groups {
		if err := g.Ended(); err != nil {
			return nil, err
		}
		n, err := f.whole(t, keep)
		if err != nil {
			if last := len(t.Nodes) - 1; last >= 0 && t.Nodes[last] != nil {
				err = g.Fail(t.Nodes[last], err)
			}
			return nil, err
		}
		made[i], nodes[i] = n, t.Nodes
	}
	if len(groups) == 0 {
		return nil, nil
	}
	if err := g.Merge(nodes, made); err != nil {
		return nil, err
	}
	return made, nil
}

// whole makes the node of a group, which is not yet in the graph.
func (f *Fuser) whole(t Together, keep func(*graph.Value) bool) (*graph.Node, error) {
	parts := t.Nodes
	if len(parts) < 2 {
		return nil, errors.New("one node needs no other to stand for it")
	}
	w := &whole{fusion: &Fusion{Parts: make([]FusedPart, 0, len(parts)), Mask: slices.Clone(t.Mask),
		Split: t.Split}, node: &graph.Node{Op: Fused}, at: make(map[*graph.Value][2]int, len(parts)),
		operand: map[seenValue]int{}}
	for i, m := range parts {
		if m == nil || m.Op == nil || len(m.Out) == 0 || !f.graph.Owns(m.Out[0]) {
			return nil, fmt.Errorf("part %d is no node of the graph", i)
		}
	}
	if err := w.gather(f, t, keep); err != nil {
		return nil, err
	}
	n, last := w.node, parts[len(parts)-1]
	streams := len(n.In) - w.fusion.Anchor + min(1, w.fusion.Anchor) + len(n.Out)
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
func (w *whole) gather(f *Fuser, t Together, keep func(*graph.Value) bool) error {
	if t.Attention {
		return w.attention(f, t.Nodes, keep)
	}
	for i, m := range t.Nodes {
		add := func() error { return w.add(i, m, f.channels(m, t), keep) }
		if i == 0 && t.Anchor {
			add = func() error { return w.anchor(m, keep) }
		}
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// whole collects the parts of a fused node.
type whole struct {
	fusion  *Fusion
	node    *graph.Node
	at      map[*graph.Value][2]int // what parts make, by part and output
	operand map[seenValue]int
}

// seenValue is an operand of the group. One value may be both a vector along dimension 1 and an ordinary operand.
type seenValue struct {
	*graph.Value
	along bool
}

// channels returns whether operand k of a part is a vector along dimension 1.
func (f *Fuser) channels(m *graph.Node, t Together) func(k int) bool {
	var r *graph.Rows
	if t.Mask != nil && m.Op.Expression == nil {
		r = f.Rows(m)
	}
	return func(k int) bool { return r != nil && r.Along(slices.Index(r.In, k)) }
}

// anchor adds the first part if it is an anchor.
func (w *whole) anchor(m *graph.Node, keep func(*graph.Value) bool) error {
	op := withEpilogue(m.Op)
	if op == nil {
		return fmt.Errorf("%q %w", m.Name, errNoEpilogue)
	}
	p := FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, In: make([]FusedArg, len(m.In)), Outs: len(m.Out)}
	for k, a := range m.In {
		if p.In[k] = (FusedArg{Part: -1, Place: k}); a.Kind == graph.Null {
			p.In[k].Place = -1
		}
	}
	w.node.Op, w.node.In, w.node.Pin = op, slices.Clone(m.In), m.Pin
	w.fusion.Anchor, w.fusion.Channels = len(m.In), make([]bool, len(m.In))
	w.makes(0, m, keep)
	w.fusion.Parts = append(w.fusion.Parts, p)
	return nil
}

// makes records the outputs of part i.
func (w *whole) makes(i int, m *graph.Node, keep func(*graph.Value) bool) {
	for k, v := range m.Out {
		w.at[v] = [2]int{i, k}
		if keep(v) {
			w.fusion.Results = append(w.fusion.Results, [2]int{i, k})
			w.node.Out = append(w.node.Out, v)
		}
	}
}

// add adds part i.
func (w *whole) add(i int, m *graph.Node, along func(k int) bool, keep func(*graph.Value) bool) error {
	p := FusedPart{Name: m.Name, Op: m.Op, Attrs: m.Attrs, In: make([]FusedArg, 0, len(m.In)), Outs: len(m.Out)}
	for k, a := range m.In {
		switch made, inner := w.at[a.Value]; {
		case a.Kind == graph.NumberArg:
			p.In = append(p.In, FusedArg{Number: a.Number})
		case a.Kind == graph.Null:
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

// state inlines the expressions of the parts into one.
func (w *whole) state(f *Fuser, parts []*graph.Node) error {
	var dtypes []tensor.DType
	anchor, shift := w.fusion.Anchor, 0 // from an operand of the node to that of the expression
	if anchor > 0 {
		dtypes, shift = append(dtypes, graph.Of(parts[0].Out[0]).Type().DType), 1-anchor
	}
	for _, a := range w.node.In[anchor:] {
		dtypes = append(dtypes, a.Type().DType)
	}
	b := expr.NewBuilder(dtypes...)
	made := make([][]expr.Output, len(parts))
	for i, m := range parts {
		switch attends := w.fusion.Seen != nil; {
		case i == 0 && anchor > 0:
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
	if err == nil && anchor > 0 && w.fusion.into() < 0 {
		err = errors.New("no result has room for what the head makes")
	}
	w.fusion.effort = sync.OnceValue(func() Effort { return EffortOf(code) })
	return err
}

// part returns the expression of a part, and the operand of the node that each operand of the expression is.
func (f *Fuser) part(n *graph.Node, rows bool) (code *expr.Code, of func(int) int, err error) {
	if rows && n.Op.Expression == nil {
		r := f.Rows(n)
		if r == nil {
			return nil, nil, errNoExpression
		}
		return r.Code, func(i int) int { return r.In[i] }, nil
	}
	code, err = f.Expression(n)
	return code, func(i int) int { return i }, err
}
