package passes

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/ends"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// Folding is a node whose results were computed when the graph was planned, because they depend on
// constants alone: the bytes that they take, 0 for a view, and for a node that a pass inserted why it
// did.
type Folding struct {
	Node, Op string
	Bytes    int
	Why      string
}

// foldLimit is the number of bytes up to which results are always computed ahead: a big
// range, say, is cheaper to make than to keep.
const foldLimit = 1 << 14

// expandedLimit is the size in bytes up to which expanded operands are read when a graph is planned.
const expandedLimit = 1 << 22

// foldConstants computes what depends on constants alone, once, such as a weight in another layout or
// dtype. What memory is short for is left to the run, and so are what fails where planning is to keep
// going, and what no kernel makes in the layouts that it has: layouts may change yet, and compiling tells.
func foldConstants(p *Plan) error {
	p.only = p.folding()
	first := slices.IndexFunc(p.Graph.Nodes, p.folds)
	if first < 0 {
		return nil
	}
	before, bytes := len(p.Folded), 0
	p.packAhead(p.Graph.Nodes[first:])
	rest := p.Graph.Nodes[:first:first]
	for _, n := range p.Graph.Nodes[first:] {
		ends.Look(p.ctx)
		data, err := p.computed(n)
		switch {
		case err != nil:
			return p.Graph.Fail(n, err)
		case data == nil && n.Packing() != nil:
			takeBack(n, p.Graph.Nodes)
			continue
		case data == nil:
			rest = append(rest, n)
			continue
		}
		p.noteFolded(n)
		f := Folding{Node: n.Name, Op: n.Op.Name, Why: n.Why}
		if !n.IsView() {
			f.Bytes = resultBytes(n)
		}
		p.room.spent, bytes = sum(p.room.spent, f.Bytes), sum(bytes, f.Bytes)
		p.Folded = append(p.Folded, f)
		for i, v := range n.Out {
			v.Pin = graph.Pin{Format: n.Pin.Format, Order: n.Pin.Order}
			t := v.Type
			if p.Graph.MakeConstant(v, data[i]); !t.IsMeta(v.Meta) { // sizes are not known: the data are for the hints
				v.Type = t
			}
		}
	}
	p.Graph.Nodes = rest
	p.dropConstants()
	if n := len(p.Folded) - before; n > 0 {
		p.Note("%s into %s of constants", counted(n, "node folded", "nodes folded"), machine.Bytes(bytes))
	}
	return nil
}

// computed returns the results of a node that folds; nil where they are left to the run.
func (p *Plan) computed(n *graph.Node) ([]*tensor.Tensor, error) {
	if !p.folds(n) {
		return nil, nil
	}
	data, err := p.folded(n)
	if err != nil && (p.keepGoing || errors.As(err, new(*uncompiled)) || errors.As(err, new(*tensor.MemoryError))) {
		return nil, nil
	}
	return data, err
}

// folded returns the results of a node that folds.
func (p *Plan) folded(n *graph.Node) ([]*tensor.Tensor, error) {
	if done, is := p.packed[n]; is {
		delete(p.packed, n)
		return done.data, done.err
	}
	return p.Graph.Fold(n, func() ([]*tensor.Tensor, error) { return p.compute(n) })
}

// foldedNode is what became of a node.
type foldedNode struct {
	data []*tensor.Tensor
	err  error
}

// errPacks is why what a node packs is not found: it is to be computed.
var errPacks = errors.New("nothing like it was packed yet")

// packAhead computes the nodes that pack constants, several at a time: they do not depend on one another. What they
// give does not depend on the number of workers. Those that the graph's class has packed are found here: a goroutine
// for each would take longer.
func (p *Plan) packAhead(nodes []*graph.Node) {
	if p.threads < 2 {
		return
	}
	var list []*graph.Node
	p.packed = map[*graph.Node]foldedNode{}
	for _, n := range nodes {
		if n.Packing() == nil || !p.folds(n) {
			continue
		}
		data, err := p.Graph.Fold(n, func() ([]*tensor.Tensor, error) { return nil, errPacks })
		if err == nil {
			p.packed[n] = foldedNode{data: data}
		} else {
			list = append(list, n)
		}
	}
	if len(list) < 2 {
		return
	}
	done := make([]foldedNode, len(list))
	var group errgroup.Group
	group.SetLimit(p.threads)
	for i, n := range list {
		group.Go(func() error {
			done[i].data, done[i].err = p.folded(n)
			return nil
		})
	}
	_ = group.Wait() // errors are those of nodes
	for i, n := range list {
		p.packed[n] = done[i]
	}
}

// folds reports whether a node's results are to be computed ahead.
func (p *Plan) folds(n *graph.Node) bool {
	for _, a := range n.In {
		if a.Kind != graph.TensorArg {
			continue
		}
		if a.Value.Const == nil || a.Value.Pin.Lays() && a.Value.Pin != n.Pin { // a pinned constant is read in runs
			return false
		}
	}
	if n.Op.Eager != nil || p.only != nil && n.Packing() == nil && !p.only[n.Number()] {
		return false
	}
	return n.IsView() || n.Packing() != nil || (p.only != nil || worthKeeping(n)) && p.room.allows(n, p.Graph)
}

// worthKeeping reports whether the node's results take no more memory than a few times
// its operands, or little anyway. The same holds for the operands as read: an expanded one exceeds its storage.
func worthKeeping(n *graph.Node) bool {
	stored, read := 0, 0
	for _, a := range n.In {
		if a.Kind == graph.TensorArg {
			stored, read = sum(stored, a.Value.Const.Storage().Len()), sum(read, a.Value.Meta.Bytes())
		}
	}
	most := max(foldLimit, 8*stored) // 8: weights of bytes become float64 for exact products
	return resultBytes(n) <= most && read <= max(expandedLimit, most)
}

// foldBudget is the memory that results computed ahead may take: half of what
// there is, for they come on top of what they were computed from.
type foldBudget struct {
	limit int // as in [Options.MemoryLimit]
	most  int // found when it is first needed
	spent int
}

// unasked is the number of bytes below which nobody asks what the process may have: to ask takes
// longer than to plan a small graph.
const unasked = 64 << 20

// allows reports whether there is memory for the results of a node. Little always is.
func (b *foldBudget) allows(n *graph.Node, g *graph.Graph) bool {
	after := sum(b.spent, resultBytes(n))
	if after < unasked && b.limit == 0 || b.limit < 0 {
		return true
	}
	if b.most == 0 {
		b.most = machine.Memory().Left / 2
		if b.limit > 0 {
			b.most = b.limit
			for _, v := range g.Constants {
				b.most -= v.Meta.Extent() * v.Meta.DType.Size()
			}
			b.most = max(b.most/2, 1)
		}
	}
	return after <= max(b.most, foldLimit)
}

func resultBytes(n *graph.Node) int {
	bytes := 0
	for _, v := range n.Out {
		bytes = sum(bytes, v.Meta.Extent()*v.Meta.DType.Size())
	}
	return bytes
}

// sum adds sizes, of which some are absurd.
func sum(a, b int) int {
	if b > math.MaxInt-a {
		return math.MaxInt
	}
	return a + b
}

// dropConstants drops the constants that nobody reads any more, whose memory is free for others
// then unless the graph that was planned holds it. It returns how many there were.
func (p *Plan) dropConstants() int {
	g := p.Graph
	if len(g.Constants) == 0 {
		return 0
	}
	read := graph.NewByValue[bool](g)
	for _, n := range g.Nodes {
		for _, a := range n.In {
			read.Set(a.Value, true)
		}
		for _, v := range n.Refs() {
			read.Set(v, true)
		}
	}
	for _, o := range g.Outputs {
		read.Set(o.Value, true)
	}
	before := len(g.Constants)
	g.Constants = slices.DeleteFunc(g.Constants, func(v *graph.Value) bool {
		if read.At(v) {
			return false
		}
		if p.Decisions == nil && p.follow == nil { // who follows may find what was made of it
			v.Const = &tensor.Tensor{Meta: v.Const.Meta} // the name and the problem of layouts may keep the value
		}
		return true
	})
	return before - len(g.Constants)
}

// uncompiled is the error of a node that no kernel computes in its layouts.
type uncompiled struct{ error }

// Unwrap returns the op's own error.
func (e *uncompiled) Unwrap() error { return e.error }

// compute runs one node whose operands are constants, in this goroutine.
func (p *Plan) compute(n *graph.Node) (_ []*tensor.Tensor, err error) {
	defer recovered(&err)
	ends.Look(p.ctx)
	if n.IsView() {
		out := make([]*tensor.Tensor, len(n.Out))
		for i, v := range n.Out {
			if out[i], err = v.Alias.Const.View(v.Meta); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	if n.Op.Compile == nil || slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v.Alias != nil }) {
		return nil, &uncompiled{errors.New("no kernel makes this value")}
	}
	k, err := n.Op.Compile(n.Call())
	if err == nil && k == nil {
		err = errors.New("its op gives no kernel")
	}
	if err != nil {
		return nil, &uncompiled{err}
	}
	return p.runKernel(k, n)
}

// runKernel runs a node's kernel on its constant operands.
func (p *Plan) runKernel(k *graph.Kernel, n *graph.Node) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(n.Out))
	m := k.NewMem()
	m.Context = p.ctx
	for i, v := range n.Out {
		out[i] = tensor.Empty(v.Meta)
		m.Ptrs = append(m.Ptrs, out[i].Pointer())
	}
	for i, a := range n.In {
		var at unsafe.Pointer
		switch {
		case i < len(k.Bound) && k.Bound[i] != nil:
			at = k.Bound[i].Pointer()
		case a.Kind == graph.TensorArg:
			at = a.Value.Const.Pointer()
		}
		m.Ptrs = append(m.Ptrs, at)
	}
	for _, ph := range k.Phases {
		for c := range ph.Chunks {
			ends.Look(p.ctx)
			if err := ph.Run(m, c); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// recovered, deferred, makes an error of a panic in an op: see panicked.
func recovered(err *error) {
	if x := recover(); x != nil {
		*err = panicked(x)
	}
}

// panicked is the error that stands for a panic. That is a broken invariant, or storage that cannot be had.
func panicked(x any) error {
	switch x := x.(type) {
	case *tensor.MemoryError:
		return x
	case *ends.Ended:
		return x
	}
	return fmt.Errorf("internal error: %v\n%s", x, debug.Stack())
}
