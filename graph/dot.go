package graph

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// DOT returns the graph in Graphviz's language. Inputs, constants, nodes and outputs are boxes with name, op, dtype,
// shape and strides. Each operand is an arrow. Nodes that a pass inserted are dashed and have the reason.
func (g *Graph) DOT() ([]byte, error) {
	var boxes, arrows bytes.Buffer
	of := map[*Value]int{} // boxes of values
	count := 0
	add := func(label []string, style string) int {
		fmt.Fprintf(&boxes, "  %d [label=%s%s];\n", count, strconv.Quote(strings.Join(label, "\n")), style)
		count++
		return count - 1
	}
	for _, v := range g.Inputs {
		of[v] = add([]string{v.Name, "input", v.Meta.String()}, inputStyle)
	}
	for _, v := range g.Constants {
		of[v] = add([]string{v.Name, "constant", v.Meta.String()}, constantStyle)
	}
	for _, n := range g.Nodes {
		box := add(n.box())
		for _, v := range n.Out {
			of[v] = box
		}
	}
	link := func(v *Value, to int, label string) error {
		from, known := of[v]
		if !known || from == to {
			return fmt.Errorf("value %q is not of the graph, or made from itself", v.Name)
		}
		if v.Node != nil && len(v.Node.Out) > 1 {
			label = strings.TrimSpace(v.Name + " " + label)
		}
		if label != "" {
			label = " [label=" + strconv.Quote(label) + "]"
		}
		fmt.Fprintf(&arrows, "  %d -> %d%s;\n", from, to, label)
		return nil
	}
	for _, n := range g.Nodes {
		for i, a := range n.In {
			if a.Kind != TensorArg {
				continue
			}
			if err := link(a.Value, of[n.Out[0]], n.operandLabel(i)); err != nil {
				return nil, g.Fail(n, err)
			}
		}
	}
	for _, o := range g.Outputs {
		label := []string{o.Name, "output"}
		if o.Pin.Lays() {
			label = append(label, o.Pin.String())
		}
		if err := link(o.Value, add(label, outputStyle), ""); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, "digraph %s {\n%s%s%s}\n", strconv.Quote(g.Name), dotDefaults, boxes.Bytes(), arrows.Bytes()),
		nil
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

// Attributes of the drawing, and of kinds of boxes.
const (
	dotDefaults = "  rankdir=TB;\n" +
		"  node [shape=box, fontname=Helvetica];\n" +
		"  edge [fontname=Helvetica, fontsize=10];\n"
	inputStyle    = `, style=filled, fillcolor="#dbe9f6"`
	constantStyle = `, style=filled, fillcolor="#eeeeee"`
	outputStyle   = `, style=filled, fillcolor="#dff0d8"`
	insertedStyle = `, style="filled,dashed", fillcolor="#fde2d2", color="#c0392b"`
)

// box returns the label and the style of a node.
func (n *Node) box() (label []string, style string) {
	op := n.Op.Name
	if numbers := n.numbers(); numbers != "" {
		op += " " + numbers
	}
	label = []string{n.Name, op}
	for _, v := range n.Out {
		text := v.Meta.String()
		if len(n.Out) > 1 {
			text = v.Name + ": " + text
		}
		label = append(label, text)
	}
	if n.Pin != (Pin{}) {
		label = append(label, "pinned to "+n.Pin.String())
	}
	if n.Why != "" {
		label = append(label, n.Why)
		style = insertedStyle
	}
	return label, style
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
