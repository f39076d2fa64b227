package passes

import (
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/graph"
)

// writeGraph prints the graph, one value on each line.
func writeGraph(w io.Writer, g *graph.Graph) {
	for _, v := range g.Inputs {
		fmt.Fprintf(w, "  %s: %v = input\n", v.Name, v.Meta)
	}
	for _, v := range g.Constants {
		fmt.Fprintf(w, "  %s: %v = constant", v.Name, v.Meta)
		if packed := v.Packed; packed != nil {
			fmt.Fprintf(w, ": %v in the form %q", packed.Meta, packed.Format)
		}
		fmt.Fprintln(w)
	}
	for _, n := range g.Nodes {
		var operands []string
		for _, arg := range n.In {
			switch arg.Kind {
			case graph.TensorArg:
				operands = append(operands, arg.Value.Name)
			case graph.NumberArg:
				operands = append(operands, arg.Number.String())
			default:
				operands = append(operands, "null")
			}
		}
		for _, v := range n.Out {
			fmt.Fprintf(w, "  %s: %v = %s(%s)", v.Name, v.Meta, n.Op.Name, strings.Join(operands, ", "))
			if v.Alias != nil {
				fmt.Fprintf(w, " view of %s", v.Alias.Name)
			}
			if n.Why != "" {
				fmt.Fprintf(w, " # %s", n.Why)
			}
			fmt.Fprintln(w)
		}
	}
	for _, output := range g.Outputs {
		fmt.Fprintf(w, "  output %s = %s\n", output.Name, output.Value.Name)
	}
}
