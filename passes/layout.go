package passes

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// layouter walks the nodes in order, gives each the layout that the strategy wants for
// the operands as they now are, and emits the copies that pins and contracts need.
type layouter struct {
	plan   *Plan
	g      *graph.Graph
	nodes  []*graph.Node
	rigid  map[*graph.Value]bool
	now    map[*graph.Value]*graph.Value // values replaced by a copy for all consumers
	copies map[copyKey]*graph.Value
	moved  map[*graph.Value]bool // values laid out otherwise than inferred from the graph as written
	lost   map[*graph.Value]bool // values of nodes that were refused, and what depends on them
}

type copyKey struct {
	value  *graph.Value
	format tensor.MemoryFormat
}

func chooseLayouts(p *Plan) error {
	l := &layouter{plan: p, g: p.Graph, rigid: rigid(p.Graph),
		now: map[*graph.Value]*graph.Value{}, copies: map[copyKey]*graph.Value{}, moved: map[*graph.Value]bool{},
		lost: map[*graph.Value]bool{}}
	nodes := p.Graph.Nodes
	l.nodes = make([]*graph.Node, 0, len(nodes)+len(nodes)/8)
	for _, v := range p.Graph.Inputs {
		if err := l.settle(v, tensor.NoFormat); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if l.loses(n) {
			continue
		}
		if err := l.try(n); err != nil {
			return err
		}
	}
	var outputs []graph.Output
	for _, o := range p.Graph.Outputs {
		if l.lost[o.Value] {
			continue
		}
		switch err := l.output(&o); {
		case err == nil:
			outputs = append(outputs, o)
		case p.keepGoing:
			p.Failed = append(p.Failed, l.g.FailOutput(o, err))
		default:
			return err
		}
	}
	p.Graph.Outputs = outputs
	p.Graph.Nodes = l.nodes
	return nil
}

// output makes an output lie as it is pinned.
func (l *layouter) output(o *graph.Output) error {
	o.Value = l.current(o.Value)
	if o.Pin == tensor.NoFormat || o.Value.Meta.Is(o.Pin) {
		return nil
	}
	v, err := l.copyOf(o.Value, o.Pin, fmt.Sprintf("output %q is pinned to %v", o.Name, o.Pin))
	if err == nil {
		o.Value = v
	}
	return err
}

// try lays one node out. Where planning keeps going, a node that fails is noted and lost;
// that a rule panics on it is a mistake in the rule, and of this node alone.
func (l *layouter) try(n *graph.Node) (err error) {
	if !l.plan.keepGoing {
		return l.node(n)
	}
	before := len(l.nodes)
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("internal error: %v\n%s", x, debug.Stack())
		}
		if err == nil {
			return
		}
		var at *graph.Error
		if !errors.As(err, &at) {
			at = l.g.Fail(n, err)
		}
		l.plan.Failed = append(l.plan.Failed, at)
		l.lose(n)
		// Copies made for it stay, for others may read them; the node itself goes.
		kept := slices.DeleteFunc(l.nodes[before:], func(m *graph.Node) bool { return m == n })
		l.nodes = l.nodes[:before+len(kept)]
		err = nil
	}()
	return l.node(n)
}

// loses reports whether the node reads something lost, and loses it too.
func (l *layouter) loses(n *graph.Node) bool {
	if len(l.lost) == 0 || !slices.ContainsFunc(n.In, func(a graph.Arg) bool { return l.lost[a.Value] }) {
		return false
	}
	l.lose(n)
	return true
}

func (l *layouter) lose(n *graph.Node) {
	for _, v := range n.Out {
		l.lost[v] = true
	}
}

// current returns the value that consumers of v should read.
func (l *layouter) current(v *graph.Value) *graph.Value {
	if w, ok := l.now[v]; ok {
		return w
	}
	return v
}

// node lays one node out.
func (l *layouter) node(n *graph.Node) error {
	var written []layoutOf
	if len(l.rigid) > 0 {
		for _, v := range n.Out {
			written = append(written, layoutOf{v.Meta, v.Alias != nil})
		}
	}
	stale := n.Pin != tensor.NoFormat
	for i := range n.In {
		if a := &n.In[i]; a.Kind == graph.TensorArg {
			now := l.current(a.Value)
			stale = stale || now != a.Value || l.moved[now]
			a.Value = now
		}
	}
	if stale {
		if err := l.reinfer(n); err != nil {
			return l.g.Fail(n, err)
		}
	}
	want := l.wanted(n)
	if n.Op.Variants != nil && n.Out[0].Alias == nil {
		if err := l.choose(n, want); err != nil {
			return err
		}
	}
	if n.Op.Kind == graph.Follows && want != tensor.NoFormat && n.Out[0].Alias == nil {
		for _, v := range n.Out {
			if st, err := want.Strides(v.Meta.Shape); err == nil && !v.Meta.Is(want) {
				v.SetMeta(v.Meta.WithStrides(st))
				l.moved[v] = true
			}
		}
	}
	l.nodes = append(l.nodes, n)
	pin := n.Pin // settle moves it to the copy
	for i, v := range n.Out {
		settle := l.settle(v, pin)
		if settle == nil && l.rigid[v] {
			settle = l.restore(v, written[i])
		}
		if settle != nil {
			return settle
		}
	}
	return nil
}

// layoutOf is how a value lies in the graph as written, and whether it is a view there.
type layoutOf struct {
	meta tensor.Meta
	view bool
}

// restore gives a value whose storage is read the layout that it has in the graph as
// written.
func (l *layouter) restore(v *graph.Value, written layoutOf) error {
	switch {
	case l.current(v) != v: // a pinned value's copy lies as written
		return nil
	case v.Alias != nil && written.view, v.Alias == nil && v.Meta.SameLayout(written.meta):
		return nil
	case v.Node.Op.Kind == graph.Follows:
		v.SetMeta(written.meta)
		return nil
	}
	c, err := l.copyOf(v, tensor.Contiguous, fmt.Sprintf("the storage of %q is read as it was written", v.Name))
	if err != nil {
		return err
	}
	c.SetMeta(written.meta)
	c.Alias = nil
	l.now[v] = c
	return nil
}

// reinfer gives the node's outputs the metas that follow from the operands as they now
// are.
func (l *layouter) reinfer(n *graph.Node) error {
	res, err := l.infer(n)
	if err != nil {
		return err
	}
	for i, v := range n.Out {
		m := res[i].Meta()
		if !v.Meta.SameLayout(m) || v.Meta.Offset != m.Offset {
			l.moved[v] = true
		}
		v.Type, v.Meta, v.Alias = res[i].Type, m, nil
		if res[i].Alias >= 0 {
			v.Alias = n.In[res[i].Alias].Value
		}
	}
	return nil
}

// wanted returns the format that the node's first output should have.
func (l *layouter) wanted(n *graph.Node) tensor.MemoryFormat {
	switch {
	case n.Pin != tensor.NoFormat:
		return n.Pin
	case l.rigid[n.Out[0]]:
		return tensor.NoFormat
	}
	return l.plan.layout(n.Out[0].Meta)
}

// infer is the op's own inference. A view that was possible in the layout as written may
// be impossible in the one chosen; then its operand is copied into row-major order first.
func (l *layouter) infer(n *graph.Node) ([]graph.Result, error) {
	res, err := n.Op.Infer(&graph.Call{In: n.In, Attrs: n.Attrs, Variant: -1})
	if err == nil || n.Op.Kind != graph.View {
		return res, err
	}
	v, cerr := l.copyOf(n.In[0].Value, tensor.Contiguous, fmt.Sprintf("%s cannot view the chosen layout", n.Name))
	if cerr != nil {
		return nil, err
	}
	n.In[0].Value = v
	return n.Op.Infer(&graph.Call{In: n.In, Attrs: n.Attrs, Variant: -1})
}

// settle demands a pin, or else the strategy's format, of a value that its producer has
// given another layout: all its consumers then read a copy.
func (l *layouter) settle(v *graph.Value, pin tensor.MemoryFormat) error {
	want := pin
	if want == tensor.NoFormat && !l.rigid[v] {
		want = l.plan.layout(v.Meta)
	}
	if want == tensor.NoFormat || v.Meta.Is(want) {
		return nil
	}
	why := fmt.Sprintf("%q is pinned to %v", v.Name, pin)
	if pin == tensor.NoFormat {
		why = fmt.Sprintf("strategy %s wants %q %v", l.plan.Strategy, v.Name, want)
	}
	c, err := l.copyOf(v, want, why)
	if err != nil {
		return err
	}
	l.now[v] = c
	if pin != tensor.NoFormat {
		// The pinned value is the copy: it takes the name over.
		name := v.Name
		l.g.Rename(v, l.g.Fresh(name+".unpinned"))
		l.g.Rename(c, name)
		c.Node.Pin, v.Node.Pin = pin, tensor.NoFormat
	}
	return nil
}

// copyOf returns a copy of the value in the format, one for all who ask for it.
func (l *layouter) copyOf(v *graph.Value, f tensor.MemoryFormat, why string) (*graph.Value, error) {
	key := copyKey{v, f}
	if c := l.copies[key]; c != nil {
		return c, nil
	}
	n, err := l.g.Insert(v.Name+"."+f.String(), "contiguous", []graph.Arg{{Kind: graph.TensorArg, Value: v}},
		graph.Attrs{"memory_format": f}, why)
	if err != nil {
		return nil, fmt.Errorf("copy of %q: %w", v.Name, err)
	}
	l.nodes = append(l.nodes, n)
	l.copies[key] = n.Out[0]
	return n.Out[0], nil
}

// choose takes the variant that gives the wanted format, else the layout inferred, with
// the fewest bytes copied, and inserts those copies.
func (l *layouter) choose(n *graph.Node, want tensor.MemoryFormat) error {
	variants := n.Op.Variants(n.Call())
	best, bestOff, bestBytes := -1, false, 0
	for i, v := range variants {
		off, bytes := false, 0
		for k, f := range v.In {
			if k < len(n.In) && n.In[k].Kind == graph.TensorArg && !n.In[k].Meta().Is(f) {
				bytes += n.In[k].Meta().Bytes()
			}
		}
		for k, f := range v.Out {
			if want != tensor.NoFormat && k == 0 {
				off = off || f != want
			} else {
				off = off || !n.Out[k].Meta.Is(f)
			}
		}
		if best < 0 || bestOff && !off || bestOff == off && bytes < bestBytes {
			best, bestOff, bestBytes = i, off, bytes
		}
	}
	if best < 0 {
		return l.g.Fail(n, fmt.Errorf("no kernel serves these operands"))
	}
	return l.take(n, variants[best], best)
}

// take makes the node run as a variant: copies of the operands that lie otherwise, and
// outputs in its formats.
func (l *layouter) take(n *graph.Node, v graph.Variant, index int) error {
	n.Variant = index
	for k, f := range v.In {
		if k >= len(n.In) || n.In[k].Kind != graph.TensorArg || n.In[k].Meta().Is(f) {
			continue
		}
		c, err := l.copyOf(n.In[k].Value, f, l.whyCopy(n, k, v))
		if err != nil {
			return l.g.Fail(n, err)
		}
		n.In[k].Value = c
	}
	for k, f := range v.Out {
		if m := n.Out[k].Meta; !m.Is(f) {
			st, err := f.Strides(m.Shape)
			if err != nil {
				return l.g.Fail(n, err)
			}
			n.Out[k].SetMeta(m.WithStrides(st))
			l.moved[n.Out[k]] = true
		}
	}
	return nil
}

func (l *layouter) whyCopy(n *graph.Node, operand int, v graph.Variant) string {
	m := n.In[operand].Meta()
	is := "strided"
	switch {
	case m.IsContiguous():
		is = "contiguous"
	case m.IsChannelsLast() || m.IsChannelsLast3d():
		is = "channels-last"
	}
	return fmt.Sprintf("%s (%s) makes %v output and needs operand %d, %q, %v; it is %s",
		n.Name, n.Op.Name, v.Out[0], operand, n.In[operand].Value.Name, v.In[operand], is)
}
