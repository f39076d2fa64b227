package batch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// decompose follows the parts of a composite node: the nodes into which it decomposes. It follows the rows from the
// operands through the parts to the results.
func (p *Proof) decompose(n *graph.Node) error {
	c, err := p.partsOf(n)
	if err != nil {
		return fmt.Errorf("its parts are not known: %w", err)
	}
	partProof := &Proof{Rows: p.Rows, graph: c.graph, places: map[*graph.Value]rowPlace{},
		repeatedOperands: map[operand]rowPlace{}}
	for v, copied := range c.copies {
		if place := p.placeOf(v); place != noRows {
			partProof.places[copied] = place
		}
	}
	if other := p.others[n]; other != nil {
		otherParts, err := p.partsOf(other)
		if err != nil {
			return fmt.Errorf("its parts are not known: %w", err)
		}
		if part, err := partProof.setOthers(c.parts, otherParts.parts, p.otherRows); err != nil {
			return fmt.Errorf("its part %s: %w", part.Op.Name, err)
		}
	}
	// If no part reads an operand, the results may depend on its shape alone. Following the parts would not find this.
	if i := p.unreadOperand(n, c.parts, c.copies); i >= 0 {
		return fmt.Errorf("its parts do not read the elements of %q, which has rows", n.In[i].Value.Name)
	}
	if part, err := partProof.followAll(c.parts); err != nil {
		return fmt.Errorf("its part %s: %w", part.Op.Name, err)
	}
	if len(partProof.repeatedOperands) > 0 { // Resize changes constants of the graph, not constants of parts
		return errors.New("a constant of its parts would have to be repeated for each row")
	}
	for i, v := range n.Out {
		if place := partProof.placeOf(c.results[i]); place != noRows {
			p.places[v] = place
		}
	}
	return nil
}

// composite has the parts of a composite node, in a graph of their own. copies maps each operand of the node to its
// copy in this graph.
type composite struct {
	graph   *graph.Graph
	copies  map[*graph.Value]*graph.Value
	parts   []*graph.Node
	results []*graph.Value
}

// partsOf decomposes a composite node.
func (p *Proof) partsOf(n *graph.Node) (c composite, err error) {
	c.graph = graph.New(p.graph.Name, p.graph.Op) // finds ops as p.graph does
	operands, copies := copyOperands(n, c.graph)
	c.copies = copies
	c.results = c.graph.ApplyExactly(n.Op.Name, len(n.Out), maps.Collect(n.AttrsAsGiven()), operands...)
	if err := errors.Join(c.graph.Err(), c.graph.Infer()); err != nil {
		return c, err
	}
	c.parts, err = c.graph.Decompose(c.results[0].Node)
	return c, err
}

// copyOperands adds the operands of a node to the graph of its parts, as inputs and constants. copies maps each operand
// to its copy.
func copyOperands(n *graph.Node, partGraph *graph.Graph) (operands []any, copies map[*graph.Value]*graph.Value) {
	operands, copies = make([]any, len(n.In)), map[*graph.Value]*graph.Value{}
	for i, arg := range n.In {
		switch {
		case arg.Kind == graph.NumberArg:
			operands[i] = arg.Number
		case arg.Kind == graph.TensorArg:
			if copies[arg.Value] == nil {
				name := fmt.Sprint("operand", i)
				if arg.Value.Const != nil {
					copies[arg.Value] = partGraph.Constant(name, arg.Value.Const)
				} else {
					copies[arg.Value] = partGraph.InputMeta(name, arg.Meta())
				}
			}
			operands[i] = copies[arg.Value]
		}
	}
	return operands, copies
}

// unreadOperand returns the index of an operand that has rows and that no part reads, or a negative number if there is
// none.
func (p *Proof) unreadOperand(n *graph.Node, parts []*graph.Node, copies map[*graph.Value]*graph.Value) int {
	return slices.IndexFunc(n.In, func(arg graph.Arg) bool {
		if arg.Kind != graph.TensorArg || p.Dim(arg.Value) < 0 {
			return false
		}
		return !slices.ContainsFunc(parts, func(part *graph.Node) bool {
			return slices.ContainsFunc(part.In, func(partArg graph.Arg) bool { return partArg.Value == copies[arg.Value] })
		})
	})
}
