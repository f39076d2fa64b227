package graph

import (
	"bytes"
	"fmt"
	"strings"

	gonum "gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/encoding"
	"gonum.org/v1/gonum/graph/encoding/dot"
	"gonum.org/v1/gonum/graph/multi"
)

// DOT returns the graph in Graphviz's language. Inputs, constants, nodes and outputs are boxes with name, op, dtype,
// shape and strides. Each operand is an arrow. A node that a pass inserted has a dashed box with the reason of the
// insertion.
func (g *Graph) DOT() ([]byte, error) {
	m := &drawing{multi.NewDirectedGraph()}
	boxOf := map[*Value]gonum.Node{}
	next := int64(0)
	add := func(b *box) gonum.Node {
		b.id = next
		next++
		m.AddNode(b)
		return b
	}
	for _, v := range g.Inputs {
		boxOf[v] = add(&box{label: []string{v.Name, "input", v.Meta.String()}, style: inputStyle})
	}
	for _, v := range g.Constants {
		boxOf[v] = add(&box{label: []string{v.Name, "constant", v.Meta.String()}, style: constantStyle})
	}
	for _, n := range g.Nodes {
		b := add(n.box())
		for _, v := range n.Out {
			boxOf[v] = b
		}
	}
	link := func(v *Value, to gonum.Node, label string) error {
		from := boxOf[v]
		if from == nil || from == to {
			return fmt.Errorf("value %q is not in the graph, or depends on itself", v.Name)
		}
		if v.Node != nil && len(v.Node.Out) > 1 {
			label = strings.TrimSpace(v.Name + " " + label)
		}
		m.SetLine(&arrow{Line: m.NewLine(from, to), label: label})
		return nil
	}
	for _, n := range g.Nodes {
		for i, a := range n.In {
			if a.Kind != TensorArg {
				continue
			}
			if err := link(a.Value, boxOf[n.Out[0]], n.operandLabel(i)); err != nil {
				return nil, g.Fail(n, err)
			}
		}
	}
	for _, o := range g.Outputs {
		label := []string{o.Name, "output"}
		if o.Pin.SetsLayout() {
			label = append(label, o.Pin.String())
		}
		if err := link(o.Value, add(&box{label: label, style: outputStyle}), ""); err != nil {
			return nil, err
		}
	}
	text, err := dot.MarshalMulti(m, g.Name, "", "  ")
	return append(bytes.TrimRight(text, "\n"), '\n'), err
}

// operandLabel returns the name of an operand; empty if the node has only one.
func (n *Node) operandLabel(i int) string {
	ps := n.Op.Params
	switch {
	case len(n.In) < 2 || len(ps) == 0:
		return ""
	case i < len(ps) && !ps[i].Variadic:
		return ps[i].Name
	}
	return fmt.Sprintf("%s[%d]", ps[len(ps)-1].Name, i-len(ps)+1)
}

var (
	inputStyle    = []encoding.Attribute{{Key: "style", Value: "filled"}, {Key: "fillcolor", Value: "#dbe9f6"}}
	constantStyle = []encoding.Attribute{{Key: "style", Value: "filled"}, {Key: "fillcolor", Value: "#eeeeee"}}
	outputStyle   = []encoding.Attribute{{Key: "style", Value: "filled"}, {Key: "fillcolor", Value: "#dff0d8"}}
	insertedStyle = []encoding.Attribute{{Key: "style", Value: "filled,dashed"}, {Key: "fillcolor", Value: "#fde2d2"},
		{Key: "color", Value: "#c0392b"}}
)

func (n *Node) box() *box {
	op := n.Op.Name
	if numbers := n.numbers(); numbers != "" {
		op += " " + numbers
	}
	b := &box{label: []string{n.Name, op}}
	for _, v := range n.Out {
		text := v.Meta.String()
		if len(n.Out) > 1 {
			text = v.Name + ": " + text
		}
		b.label = append(b.label, text)
	}
	if n.Pin != (Pin{}) {
		b.label = append(b.label, "pinned to "+n.Pin.String())
	}
	if n.Why != "" {
		b.label = append(b.label, n.Why)
		b.style = insertedStyle
	}
	return b
}

// numbers lists the operands that are plain numbers, which have no arrow: "other=0.5".
func (n *Node) numbers() string {
	var list []string
	for i, a := range n.In {
		if a.Kind == NumberArg {
			name := n.operandLabel(i)
			if name == "" && len(n.Op.Params) > 0 {
				name = n.Op.Params[0].Name
			}
			list = append(list, name+"="+a.Number.String())
		}
	}
	return strings.Join(list, ", ")
}

// drawing is a graph with parallel edges, and with the attributes that all boxes share.
type drawing struct{ *multi.DirectedGraph }

// DOTAttributers returns the attributes of the graph, of all nodes and of all edges.
func (d *drawing) DOTAttributers() (graph, node, edge encoding.Attributer) {
	return &encoding.Attributes{{Key: "rankdir", Value: "TB"}},
		&encoding.Attributes{{Key: "shape", Value: "box"}, {Key: "fontname", Value: "Helvetica"}},
		&encoding.Attributes{{Key: "fontname", Value: "Helvetica"}, {Key: "fontsize", Value: "10"}}
}

// box is the drawn box of an input, constant, node or output.
type box struct {
	id    int64
	label []string
	style []encoding.Attribute
}

// ID returns the index of the box.
func (b *box) ID() int64 { return b.id }

// Attributes returns label and style.
func (b *box) Attributes() []encoding.Attribute {
	return append([]encoding.Attribute{{Key: "label", Value: strings.Join(b.label, "\n")}}, b.style...)
}

// arrow is the drawing of an operand. It points from the box of the producer to the box of the user.
type arrow struct {
	gonum.Line
	label string
}

// Attributes returns the label, if there is one.
func (a *arrow) Attributes() []encoding.Attribute {
	if a.label == "" {
		return nil
	}
	return []encoding.Attribute{{Key: "label", Value: a.label}}
}

// ReversedLine returns the reversed arrow.
func (a *arrow) ReversedLine() gonum.Line { return &arrow{a.Line.ReversedLine(), a.label} }
