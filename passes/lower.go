package passes

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// This file prepares constants for the kernels: it inserts nodes that pack them. A packed form is the order of
// elements, possibly padded, in which the implementation of a node reads an operand fastest.

// packer inserts packing nodes: one for each pair of a constant and a packed form. For example, if the implementations
// of two products read the constant w in the same form, both read the result of one packing node.
type packer struct {
	graph     *graph.Graph
	nodes     []*graph.Node // nodes of the resulting graph so far; nil until the first packing node is inserted
	byForm    map[constantForm]*packNode
	packNodes []*packNode
}

// constantForm is a constant and a form.
type constantForm struct {
	value *graph.Value
	form  string
}

// memory is where a constant begins, and memoryForm a form of the data there. Views of a constant begin at one place.
type memory struct {
	storage *tensor.Storage
	dtype   tensor.DType
	offset  int
}

type memoryForm struct {
	memory
	form string
}

// memoryOf returns the memory that a packing of a constant reads.
func memoryOf(v *graph.Value, packing *graph.Packing) memory {
	source := packing.Source(v.Const)
	return memory{source.Storage(), source.DType, source.Offset}
}

// formOf returns the form that a node packs, and where its operand is.
func formOf(n *graph.Node) memoryForm {
	return memoryForm{memoryOf(n.In[0].Value, n.Packing()), n.Packing().Format}
}

// packNode is a packing node, and the names of the nodes that read its result.
type packNode struct {
	*graph.Node
	readers []string
}

// packConstants inserts nodes that pack constant operands.
func packConstants(p *Plan) error {
	packing := packer{graph: p.Graph, byForm: map[constantForm]*packNode{}}
	for i, n := range p.Graph.Nodes {
		interrupt.Check(p.options.Context)
		if n.Impl != nil && n.Impl.Pack != nil && slices.ContainsFunc(n.In, isPackable) {
			if err := packing.packOperands(n, i); err != nil {
				return p.Graph.NodeError(n, err)
			}
		}
		if packing.nodes != nil {
			packing.nodes = append(packing.nodes, n)
		}
	}
	if packing.nodes == nil {
		return nil
	}
	p.Graph.Nodes = packing.nodes
	if err := packing.packViews(); err != nil {
		return err
	}
	for _, n := range packing.packNodes {
		n.Why = "packed for " + strings.Join(n.readers, ", ")
	}
	p.Note("%s to be packed", countText(len(packing.packNodes), "constant", "constants"))
	return nil
}

// isPackable reports whether an operand is a constant that is neither packed nor pinned to a layout.
func isPackable(a graph.Arg) bool {
	return a.Kind == graph.TensorArg && a.Value.Const != nil && a.Value.Packed == nil && !a.Value.Pin.SetsLayout()
}

// packOperands packs the constant operands of n. position is the index of n in the graph.
func (packer *packer) packOperands(n *graph.Node, position int) (err error) {
	defer panics.Recover(&err)
	call := n.Call()
	for i := range n.In {
		a := &n.In[i]
		if !isPackable(*a) {
			continue
		}
		form, ok := n.Impl.Pack(call, i)
		if !ok {
			continue
		}
		if machine.RunError() != nil { // this processor cannot run the plan, so nothing packs the data
			form.Unpack = nil // the packed constant then keeps its original, so that Unpack is not needed
		}
		packed, err := packer.packNodeFor(a.Value, form, position)
		if err != nil {
			return err
		}
		packed.readBy(n, i)
	}
	return nil
}

// readBy makes operand i of a node the packed constant.
func (packed *packNode) readBy(n *graph.Node, i int) {
	n.In[i].Value = packed.Out[0]
	if !slices.Contains(packed.readers, n.Name) {
		packed.readers = append(packed.readers, n.Name)
	}
}

// packViews packs the other operands that begin at a packed constant, such as the table of a gather whose
// transpose is multiplied, if all their readers find the elements in the packed data ([graph.Packing.View]). The data
// are computed once ([graph.Graph.Fold]), and nothing reads the constant itself.
func (packer *packer) packViews() error {
	packings := map[memory]*graph.Packing{}
	for _, n := range packer.packNodes {
		if packing := n.Packing(); packing.View != nil && packing.Unpack != nil {
			packings[memoryOf(n.In[0].Value, packing)] = packing
		}
	}
	if len(packings) == 0 {
		return nil
	}
	packingOf := func(n *graph.Node, i int) *graph.Packing { // nil if the operand is read unpacked
		a := &n.In[i]
		if n.Impl == nil || n.Impl.ReadsView == nil || !isPackable(*a) || !n.Impl.ReadsView(n.Call(), i) {
			return nil
		}
		packing := packings[memory{a.Value.Const.Storage(), a.Value.Const.DType, a.Value.Const.Offset}]
		if packing == nil {
			return nil
		}
		if _, _, ok := packing.View(a.Value.Meta); !ok {
			return nil
		}
		return packing
	}
	unpacked := readStorages(packer.graph, func(n *graph.Node, i int) bool { return packingOf(n, i) != nil })
	packed, nodes := map[*graph.Value]*packNode{}, packer.nodes
	packer.nodes = make([]*graph.Node, 0, len(nodes)+1)
	for _, n := range nodes {
		for i := range n.In {
			v, packing := n.In[i].Value, packingOf(n, i)
			if packing == nil || unpacked[v.Const.Storage()] {
				continue
			}
			if packed[v] == nil {
				var err error
				if packed[v], err = packer.insert(v, *packing); err != nil {
					return packer.graph.NodeError(n, err)
				}
			}
			packed[v].readBy(n, i)
		}
		packer.nodes = append(packer.nodes, n)
	}
	packer.graph.Nodes = packer.nodes
	return nil
}

// packNodeFor returns the node that packs a constant into a form. A new node is inserted before the reader, whose index
// in the graph is position.
func (packer *packer) packNodeFor(v *graph.Value, form graph.Packing, position int) (*packNode, error) {
	key := constantForm{v, form.Format}
	if packed := packer.byForm[key]; packed != nil {
		return packed, nil
	}
	if packer.nodes == nil {
		packer.nodes = append(make([]*graph.Node, 0, len(packer.graph.Nodes)+8), packer.graph.Nodes[:position]...)
	}
	packed, err := packer.insert(v, form)
	if err == nil {
		packer.byForm[key] = packed
	}
	return packed, err
}

// insert appends a node that packs a constant.
func (packer *packer) insert(v *graph.Value, form graph.Packing) (*packNode, error) {
	n, err := packer.graph.Pack(v, form)
	if err != nil {
		return nil, err
	}
	packed := &packNode{Node: n}
	packer.nodes, packer.packNodes = append(packer.nodes, n), append(packer.packNodes, packed)
	return packed, nil
}

// unpack redirects the readers of a packing node to the node's operand. The kernels of the readers then pack the
// operand in every run.
func unpack(n *graph.Node, nodes []*graph.Node) {
	for _, reader := range nodes {
		for i := range reader.In {
			if a := &reader.In[i]; a.Kind == graph.TensorArg && a.Value == n.Out[0] {
				a.Value = n.In[0].Value
			}
		}
	}
}

// listPackings sets Packed and PackedInRuns.
func (p *Plan) listPackings() {
	packedIndex := map[any]int{} // by storage of packed data, or by value if runs pack it: index in p.Packed
	for _, n := range p.Graph.Nodes {
		if n.Impl == nil || n.Impl.Pack == nil && n.Impl.ReadsView == nil {
			continue
		}
		call := n.Call()
		for i, a := range n.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			v := a.Value
			if v.Packed == nil {
				if form := wantedForm(n, call, i); form != "" {
					p.PackedInRuns = append(p.PackedInRuns, report.RunPacking{Value: v.Name, Form: form, Node: n.Name})
				}
				continue
			}
			data := any(v)
			if v.Const != nil {
				data = v.Const.Storage()
			}
			index, isListed := packedIndex[data]
			if !isListed {
				index = len(p.Packed)
				packedIndex[data] = index
				p.Packed = append(p.Packed, report.Packing{Value: v.Name, Original: v.Packed.Of, Form: v.Packed.Format,
					Bytes: v.Meta.Bytes()})
			}
			if packing := &p.Packed[index]; !slices.Contains(packing.Readers, n.Name) {
				packing.Readers = append(packing.Readers, n.Name)
			}
		}
	}
}

// wantedForm returns the packed form in which the node's implementation reads operand i. It is empty if the
// implementation reads the operand unpacked, or if Pack panics; compilation will report the panic.
func wantedForm(n *graph.Node, call *graph.Call, i int) (form string) {
	defer func() {
		if recover() != nil {
			form = ""
		}
	}()
	if n.Impl.Pack == nil {
		return ""
	}
	if p, ok := n.Impl.Pack(call, i); ok {
		return p.Format
	}
	return ""
}
