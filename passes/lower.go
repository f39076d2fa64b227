package passes

import (
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/report"
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

// packNode is a packing node, and the names of the nodes that read its result.
type packNode struct {
	*graph.Node
	readers []string
}

// packConstants inserts nodes that pack constant operands.
func packConstants(p *Plan) error {
	packing := packer{graph: p.Graph, byForm: map[constantForm]*packNode{}}
	for i, n := range p.Graph.Nodes {
		interrupt.Check(p.ctx)
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
		a.Value = packed.Out[0]
		if !slices.Contains(packed.readers, n.Name) {
			packed.readers = append(packed.readers, n.Name)
		}
	}
	return nil
}

// packNodeFor returns the node that packs a constant into a form. A new node is inserted before the reader, whose index
// in the graph is position.
func (packer *packer) packNodeFor(v *graph.Value, form graph.Packing, position int) (*packNode, error) {
	key := constantForm{v, form.Format}
	if packed := packer.byForm[key]; packed != nil {
		return packed, nil
	}
	n, err := packer.graph.Pack(v, form)
	if err != nil {
		return nil, err
	}
	if packer.nodes == nil {
		packer.nodes = append(make([]*graph.Node, 0, len(packer.graph.Nodes)+8), packer.graph.Nodes[:position]...)
	}
	packed := &packNode{Node: n}
	packer.nodes, packer.packNodes = append(packer.nodes, n), append(packer.packNodes, packed)
	packer.byForm[key] = packed
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
	packedIndex := map[*graph.Value]int{} // by packed value: index in p.Packed
	for _, n := range p.Graph.Nodes {
		if n.Impl == nil || n.Impl.Pack == nil {
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
			index, isListed := packedIndex[v]
			if !isListed {
				index = len(p.Packed)
				packedIndex[v] = index
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
	if p, ok := n.Impl.Pack(call, i); ok {
		return p.Format
	}
	return ""
}
