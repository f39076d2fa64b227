// Package dot draws graphs in DOT, the language of Graphviz.
package dot

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Marshal returns the graph in DOT. Inputs, constants, nodes and outputs are boxes with name, op, dtype, shape, strides
// and, for a result on a device, the place. Each tensor operand is an arrow. A node that a pass inserted has a dashed
// box with the reason of the insertion. For example, without the styles, the text for y = relu(x) is
//
//	digraph "net" {
//	  0 [label="x\ninput\nfloat32[2,3]@(3,1)"];
//	  1 [label="y\nrelu\nfloat32[2,3]@(3,1)"];
//	  0 -> 1;
//	  2 [label="y\noutput"];
//	  1 -> 2;
//	}
func Marshal(g *graph.Graph) ([]byte, error) {
	if g == nil {
		return nil, errors.New("the graph is nil")
	}
	d := drawing{boxOf: map[*graph.Value]int{}}
	fmt.Fprintf(&d.text, "digraph %s {\n  node [shape=box, fontname=Helvetica];\n", quote(g.Name))
	d.text.WriteString("  edge [fontname=Helvetica, fontsize=10];\n")
	for _, v := range g.Inputs {
		d.boxOf[v] = d.addBox(inputStyle, v.Name, "input", v.Meta.String())
	}
	for _, v := range g.Constants {
		d.boxOf[v] = d.addBox(constantStyle, v.Name, "constant", v.Meta.String())
	}
	for _, n := range g.Nodes {
		d.addNode(n)
	}
	for _, n := range g.Nodes {
		if err := d.addOperandArrows(n); err != nil {
			return nil, g.NodeError(n, err)
		}
	}
	for _, output := range g.Outputs {
		if err := d.addOutput(output); err != nil {
			return nil, err
		}
	}
	d.text.WriteString("}\n")
	return d.text.Bytes(), nil
}

// drawing is a text in DOT.
type drawing struct {
	text     bytes.Buffer
	boxOf    map[*graph.Value]int // index of the box of the node, input or constant that gives the value
	boxCount int
}

// Attributes of boxes.
const (
	inputStyle    = `, style=filled, fillcolor="#dbe9f6"`
	constantStyle = `, style=filled, fillcolor="#eeeeee"`
	outputStyle   = `, style=filled, fillcolor="#dff0d8"`
	insertedStyle = `, style="filled,dashed", fillcolor="#fde2d2", color="#c0392b"`
)

// addNode writes the box of a node. The arrows of all results of the node start at this box.
func (d *drawing) addNode(n *graph.Node) {
	style := ""
	if n.Why != "" {
		style = insertedStyle
	}
	box := d.addBox(style, labelOf(n)...)
	for _, v := range n.Out {
		d.boxOf[v] = box
	}
}

// labelOf returns the lines of a node's box.
func labelOf(n *graph.Node) []string {
	op := n.Op.Name
	if numbers := numbersText(n); numbers != "" {
		op += " " + numbers
	}
	lines := []string{n.Name, op}
	for _, v := range n.Out {
		text := v.Meta.String()
		if place := v.Place(); place != tensor.Host {
			text += " on the " + place.String()
		}
		if len(n.Out) > 1 {
			text = v.Name + ": " + text
		}
		lines = append(lines, text)
	}
	if n.Pin != (graph.Pin{}) {
		lines = append(lines, "pinned to "+n.Pin.String())
	}
	if n.Why != "" {
		lines = append(lines, n.Why)
	}
	return lines
}

// numbersText lists the operands that are plain numbers, as in "other=0.5". Such operands have no arrow.
func numbersText(n *graph.Node) string {
	var list []string
	for i, arg := range n.In {
		if arg.Kind == graph.NumberArg {
			name := operandLabel(n, i)
			if name == "" && len(n.Op.Params) > 0 { // the only operand
				name = n.Op.Params[0].Name
			}
			list = append(list, name+"="+arg.Number.String())
		}
	}
	return strings.Join(list, ", ")
}

// addOperandArrows writes the arrows to a node.
func (d *drawing) addOperandArrows(n *graph.Node) error {
	for i, arg := range n.In {
		if arg.Kind != graph.TensorArg {
			continue
		}
		if err := d.addArrow(arg.Value, d.boxOf[n.Out[0]], operandLabel(n, i)); err != nil {
			return err
		}
	}
	return nil
}

// operandLabel returns the name of an operand. It is empty if the node has only one operand.
func operandLabel(n *graph.Node, i int) string {
	params := n.Op.Params
	switch {
	case len(n.In) < 2 || len(params) == 0:
		return ""
	case i < len(params) && !params[i].Variadic:
		return params[i].Name
	}
	return fmt.Sprintf("%s[%d]", params[len(params)-1].Name, i-len(params)+1) // an element of the list, the last Param
}

// addOutput writes the box of an output and its arrow.
func (d *drawing) addOutput(output graph.Output) error {
	label := []string{output.Name, "output"}
	if output.Pin.SetsLayout() {
		label = append(label, output.Pin.String())
	}
	return d.addArrow(output.Value, d.addBox(outputStyle, label...), "")
}

// addBox writes a box with the lines of its label, and returns its index.
func (d *drawing) addBox(style string, label ...string) int {
	box := d.boxCount
	d.boxCount++
	fmt.Fprintf(&d.text, "  %d [label=%s%s];\n", box, quote(label...), style)
	return box
}

// addArrow writes an arrow from the producer of a value to a box.
func (d *drawing) addArrow(v *graph.Value, to int, label string) error {
	from, ok := d.boxOf[v]
	if !ok || from == to {
		return fmt.Errorf("value %q is not in the graph, or depends on itself", v.Name)
	}
	if v.Node != nil && len(v.Node.Out) > 1 {
		label = strings.TrimSpace(v.Name + " " + label)
	}
	fmt.Fprintf(&d.text, "  %d -> %d", from, to)
	if label != "" {
		fmt.Fprintf(&d.text, " [label=%s]", quote(label))
	}
	d.text.WriteString(";\n")
	return nil
}

// quote returns lines as a string in DOT.
func quote(lines ...string) string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' {
			return unicode.ReplacementChar
		}
		return r
	}, strings.Join(lines, "\n")) // also replaces invalid UTF-8
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
