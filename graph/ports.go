package graph

import (
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Port describes an input or an output of a graph to its callers.
type Port struct {
	Name  string
	DType tensor.DType
	// Shape has the sizes, and -1 for each size that differs between runs. It is nil if the rank depends on data.
	Shape []int
	// Sizes has the sizes as text: numbers, symbols by their names in the file, expressions over symbols, and "?" for
	// sizes that depend on data. For example, a cache has the shape [-1, 8, -1, 64] and the sizes "batch", "8",
	// "past + 1", "64".
	Sizes []string
	// Labels has the strings that elements stand for, or the keys of the maps that rows stand for, if any.
	Labels Labels
	// HasDefault says that a run may omit the input: see [Value.Default].
	HasDefault bool
}

// Ports describes the inputs and outputs of the graph. fixed has the sizes of symbols that are equal in all runs. If
// the graph cannot be inferred for unknown sizes, sizes of outputs are unknown: "?".
func (g *Graph) Ports(fixed map[string]int) (inputs, outputs []Port, err error) {
	if len(fixed) > 0 {
		g = g.Clone()
		if err := g.BindWithoutInference(fixed); err != nil {
			return nil, nil, err
		}
	}
	for _, v := range g.Inputs {
		port := g.port(v.Name, v.Meta.DType)
		port.HasDefault, port.Shape = v.Default != nil, slices.Clone(v.Meta.Shape)
		for i, size := range v.Meta.Shape {
			text := strconv.Itoa(size)
			if v.Dims != nil && g.isOpen(v.Dims[i]) {
				text, port.Shape[i] = g.nameInFile(v.Dims[i].Symbol+v.Dims[i].Expr), -1
			}
			port.Sizes = append(port.Sizes, text)
		}
		inputs = append(inputs, port)
	}
	return inputs, g.outputPorts(), nil
}

// outputPorts describes the outputs.
func (g *Graph) outputPorts() []Port {
	// inferred has the types for all sizes. Unbacked has no symbols for the sizes of inputs: there, a size that is the
	// same at other sizes of inputs is taken for a number.
	var inferred, other *Graph
	if g.Dynamic() {
		inferred, other = g.Unbacked().Graph, g.atOtherSizes()
	} else if symbolic, err := g.Symbolic(nil); err == nil {
		inferred = symbolic.Graph
	}
	ports := make([]Port, len(g.Outputs))
	for i, output := range g.Outputs {
		t := output.Value.Type
		if inferred != nil {
			t = inferred.Outputs[i].Value.Type
		}
		port := g.port(output.Name, output.Value.Meta.DType)
		if inferred != nil && t.DType.Valid() {
			port.DType = t.DType
		}
		if t.Shape != nil || !output.Value.Dynamic {
			port.Shape = make([]int, len(t.Shape))
		}
		for k, size := range t.Shape {
			n, isNumber := size.Known()
			text := size.String()
			if inferred == nil || g.Dynamic() {
				isNumber = isNumber && len(g.assumed) == 0 || other != nil && sameSize(size, other.Outputs[i].Value.Type, k)
				text = "?"
			}
			if isNumber {
				text = strconv.Itoa(n)
			} else {
				n = -1
			}
			port.Shape[k], port.Sizes = n, append(port.Sizes, g.nameInFile(text))
		}
		ports[i] = port
	}
	return ports
}

// sameSize reports whether a size is a number, and the same as size k of another type.
func sameSize(size sym.Int, other tensor.Type, k int) bool {
	n, isNumber := size.Known()
	if k >= len(other.Shape) {
		return false
	}
	m, isOtherNumber := other.Shape[k].Known()
	return isNumber && isOtherNumber && n == m
}

// port returns a port without a shape.
func (g *Graph) port(name string, dtype tensor.DType) Port {
	return Port{Name: name, DType: dtype, Labels: g.Labels[name]}
}

// isOpen reports whether a dimension depends on a symbol without a given size.
func (g *Graph) isOpen(dim Dim) bool {
	for name := range g.Symbols {
		if _, isAssumed := g.assumed[name]; isAssumed && dim.dependsOn(name) {
			return true
		}
	}
	return false
}

// nameInFile returns the name of a symbol in the file. It returns another text unchanged.
func (g *Graph) nameInFile(text string) string {
	if name := g.Symbols[text].NameInFile; name != "" {
		return name
	}
	return text
}

// atOtherSizes returns the graph with unknown sizes that depend on data, inferred for other sizes of the open symbols.
// It returns nil if there are no open symbols, or if the graph cannot be inferred at other sizes.
func (g *Graph) atOtherSizes() *Graph {
	if len(g.assumed) == 0 {
		return nil
	}
	other, sizes := g.Clone(), g.BoundSizes()
	for name := range g.assumed {
		sizes[name] = g.Symbols[name].Clamp(2*sizes[name] + 1)
	}
	if other.Bind(sizes) != nil || !other.Dynamic() {
		return nil
	}
	return other.Unbacked().Graph
}
