// Package graphdigest writes a graph to a hash. It writes first the graph file, which has the nodes and their
// attributes, and then the sizes of symbols, the pins, the layouts of values, and the data of constants. A pin is a
// user's demand for the layout, the implementation or the device of a value or node.
package graphdigest

import (
	"context"
	"fmt"
	"hash"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/graphfile"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// hashBlock is the number of bytes that are hashed between two checks of the context.
const hashBlock = 1 << 20

// Write writes a graph to a hash. It calls the function data for each constant, also in graphs that are attributes.
// This function writes the elements of the constant. Write fails if a graph file cannot express an op or an attribute
// of the graph.
func Write(ctx context.Context, h hash.Hash, g *graph.Graph, data func(*graph.Value) error) error {
	constants, err := writeFile(h, g)
	if err != nil {
		return err
	}
	sizes := g.BoundSizes()
	for _, name := range sorted.Keys(sizes) {
		fmt.Fprintf(h, "size %q %d\n", name, sizes[name])
	}
	VisitPins(g, func(name, pin string) { fmt.Fprintf(h, "pin %q %q\n", name, pin) })
	g.Values(func(v *graph.Value) {
		fmt.Fprintf(h, "value %q %v %v %v %d\n", v.Name, v.Meta.DType, v.Meta.Shape, v.Meta.Strides, v.Meta.Offset)
	})
	for _, v := range constants {
		fmt.Fprintf(h, "data %q\n", v.Name)
		if err := data(v); err != nil {
			return err
		}
	}
	for _, node := range g.Nodes {
		for name, attr := range node.AttrsAsGiven() {
			body, isGraph := attr.(*graph.Graph)
			if !isGraph || body == nil {
				continue
			}
			fmt.Fprintf(h, "body %q %q\n", node.Name, name)
			if err := Write(ctx, h, body, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteStructure writes a graph to a hash without the layouts of its values and the data of its constants: the file, the
// given sizes of symbols, the pins, and the types of constants. Inference does not change them.
func WriteStructure(h hash.Hash, g *graph.Graph, sizes map[string]int) error {
	constants, err := writeFile(h, g)
	if err != nil {
		return err
	}
	for _, name := range sorted.Keys(sizes) {
		fmt.Fprintf(h, "size %q %d\n", name, sizes[name])
	}
	VisitPins(g, func(name, pin string) { fmt.Fprintf(h, "pin %q %q\n", name, pin) })
	for _, v := range constants {
		if v.Const != nil {
			fmt.Fprintf(h, "constant %q %v %v\n", v.Name, v.Const.Meta.DType, v.Const.Meta.Shape)
		}
	}
	return nil
}

// writeFile writes the graph file to a hash, without constants, and returns these with the defaults of inputs.
func writeFile(h hash.Hash, g *graph.Graph) (constants []*graph.Value, err error) {
	withoutConstants := *g
	withoutConstants.Constants = nil // a graph file may name files of constants; instead, data writes the elements below
	withoutConstants.Inputs = make([]*graph.Value, len(g.Inputs))
	constants = slices.Clone(g.Constants)
	for i, v := range g.Inputs {
		input := *v
		withoutConstants.Inputs[i] = &input
		if v.Default != nil { // a graph file would have a constant instead
			input.Default = nil
			constants = append(constants, &graph.Value{Name: v.Name, Const: v.Default})
		}
	}
	if err := graphfile.Save(h, &withoutConstants); err != nil {
		return nil, fmt.Errorf("digest of the graph: %w", err)
	}
	return constants, nil
}

// DataWriter returns the usual argument `data` of [Write]: a function that writes the elements of a constant in logical
// order.
func DataWriter(ctx context.Context, h hash.Hash) func(*graph.Value) error {
	return func(v *graph.Value) error {
		constant := v.Data()
		if constant == nil || constant.Numel() == 0 {
			return nil
		}
		if !constant.IsContiguous() {
			contiguous := tensor.Empty(tensor.New(constant.DType, constant.Shape...))
			if err := iter.CopyElements(ctx, contiguous, constant, 1); err != nil {
				return err
			}
			constant = contiguous
		}
		start := constant.Offset * constant.DType.Size()
		for block := range slices.Chunk(constant.Storage().Bytes()[start:start+constant.Bytes()], hashBlock) {
			interrupt.Check(ctx)
			if _, err := h.Write(block); err != nil {
				return err
			}
		}
		return nil
	}
}

// VisitPins calls add for each pin of a graph, with the name of the value, node or output, and the text of the pin.
func VisitPins(g *graph.Graph, add func(name, pin string)) {
	addPin := func(name string, pin graph.Pin) {
		if pin.SetsLayout() {
			add(name, graph.Pin{Format: pin.Format, Order: pin.Order}.String())
		}
		if pin.Impl != "" {
			add(name, graph.Pin{Impl: pin.Impl}.String())
		}
		if pin.Device != "" {
			add(name, graph.Pin{Device: pin.Device}.String())
		}
	}
	for _, v := range slices.Concat(g.Inputs, g.Constants) {
		addPin(v.Name, v.Pin)
	}
	for _, n := range g.Nodes {
		addPin(n.Name, n.Pin)
	}
	for _, output := range g.Outputs {
		if g.Value(output.Name) == nil { // otherwise the name is the name of the value; the graph file has the output's pin
			addPin(output.Name, output.Pin)
		}
	}
}
