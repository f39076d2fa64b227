package graph

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// This file has functions for callers that continue after errors: inputs, constants or nodes that cannot be read, and
// nodes that inference rejects. For example, if the file of the constant w is missing, a command still plans the rest
// of the graph a = relu(x), b = matmul(a, w), c = neg(b): [Graph.DropValues] keeps a, and returns errors for w and b.
// It returns no error for c, which does not read w directly.

// DropValues returns a copy of the graph without unavailable values, and without the nodes and outputs that depend on
// them. Unavailable values are inputs and constants that could not be read. `unavailable` maps each of them to the
// reason. unknownSymbols lists the symbols that occur only in the sizes of unavailable inputs. Nodes with such a symbol
// in an attribute are dropped as well. The returned errors are sorted by position in the file. There is an error for
// each unavailable value, and for each node or output that reads an unavailable value directly.
func (g *Graph) DropValues(unavailable map[*Value]error, unknownSymbols ...string) (*Graph, Errors) {
	var errs Errors
	isUnavailable := map[*Value]bool{}
	for _, list := range [][]*Value{g.Inputs, g.Constants} {
		for _, v := range list {
			if err, ok := unavailable[v]; ok {
				isUnavailable[v] = true
				errs = append(errs, g.valueError(v, cmp.Or(err, errNoCause)))
			}
		}
	}
	rejected := map[*Node]*Error{}
	for _, n := range g.Nodes {
		if err := n.missingDependency(isUnavailable, unknownSymbols); err != nil {
			rejected[n] = g.NodeError(n, err)
			errs = append(errs, rejected[n])
		}
	}
	remaining := g.WithoutRejected(rejected)
	remaining.Outputs = slices.DeleteFunc(remaining.Outputs, func(output Output) bool {
		return copyIsUnavailable(g, isUnavailable, output.Value)
	})
	for _, output := range g.Outputs {
		if isUnavailable[output.Value] {
			errs = append(errs, g.OutputError(output, unavailableError(output.Value)))
		}
	}
	drop := func(v *Value) bool {
		if !copyIsUnavailable(g, isUnavailable, v) {
			return false
		}
		remaining.nameIndex().dropValue(v)
		return true
	}
	remaining.Inputs = slices.DeleteFunc(remaining.Inputs, drop)
	remaining.Constants = slices.DeleteFunc(remaining.Constants, drop)
	errs.Sort()
	return remaining, errs
}

// copyIsUnavailable reports whether a value of a copy of g is the copy of an unavailable value.
func copyIsUnavailable(g *Graph, unavailable map[*Value]bool, v *Value) bool {
	return unavailable[g.Value(v.Name)]
}

// missingDependency returns an error if the node reads a value in unavailable, or if an attribute depends on an unknown
// symbol.
func (n *Node) missingDependency(unavailable map[*Value]bool, unknownSymbols []string) error {
	if v := n.unavailableDependency(unavailable); v != nil {
		return unavailableError(v)
	}
	for _, symbol := range unknownSymbols {
		for name, attr := range n.givenAttrs() {
			if attrDependsOn(attr, symbol) {
				return &AttrError{name, fmt.Errorf("attribute %q: the size %s is not known: "+
					"only an input that cannot be read determines it", name, symbol)}
			}
		}
	}
	return nil
}

// unavailableDependency returns the first unavailable value that the node reads, or nil.
func (n *Node) unavailableDependency(unavailable map[*Value]bool) *Value {
	for i := range n.dependencyCount() {
		if v := n.dependency(i); unavailable[v] {
			return v
		}
	}
	return nil
}

// unavailableError is the error of a node or an output that reads an unavailable input or constant.
func unavailableError(v *Value) error {
	return fmt.Errorf("depends on %s %q, which cannot be read", v.Kind(), v.Name)
}

// errNoCause replaces a nil error as the reason of a rejection.
var errNoCause = errors.New("no cause was given")

// WithoutRejected returns a copy of the graph without the rejected nodes and the nodes that depend on rejected nodes.
// The copy also lacks the outputs that these nodes compute.
func (g *Graph) WithoutRejected(rejected map[*Node]*Error) *Graph {
	remaining := g.Clone()
	remaining.Nodes, remaining.Outputs = nil, nil // the index of names still has all nodes
	rejected = maps.Clone(rejected)
	for _, n := range g.Nodes {
		copied := remaining.nameIndex().node(n.Name)
		if err := n.dependsOn(rejected); err != nil && rejected[n] == nil {
			rejected[n] = g.NodeError(n, err)
		}
		if rejected[n] == nil {
			remaining.Nodes = append(remaining.Nodes, copied)
			continue
		}
		remaining.nameIndex().dropNode(copied)
	}
	for _, output := range g.Outputs {
		if output.Value.Node == nil || rejected[output.Value.Node] == nil {
			output.Value = remaining.nameIndex().values[output.Value.Name]
			remaining.Outputs = append(remaining.Outputs, output)
		}
	}
	return remaining
}

// AddRejected adds a node that an importer cannot convert. Inference rejects the node with err, as it does after
// [Draft.Reject]. op is the name of the node's op in the file. results are the names of the node's results. If results
// is empty, the node has one result with the name of the node. The results have no types, but they may be outputs, and
// operands of other nodes that AddRejected adds.
func (g *Graph) AddRejected(name, op string, results []string, err error, operands ...*Value) []*Value {
	n := &Node{Name: g.UniqueName(cmp.Or(name, "node")), Op: placeholderOp(op)}
	g.assignNodeNumber(n)
	g.rejectNode(n, cmp.Or(err, errNoCause))
	for i, v := range operands {
		if v == nil || v.graph != g {
			g.recordError(&Error{Node: n.Name, Op: op, Err: fmt.Errorf("operand %d is not a value of the graph", i)})
			continue
		}
		n.In = append(n.In, Arg{Kind: TensorArg, Value: v})
	}
	names := g.nameIndex()
	if len(results) == 0 {
		results = []string{n.Name}
	}
	for i, result := range results {
		v := &Value{Name: g.UniqueName(cmp.Or(result, n.Name)), Node: n, Index: i, graph: g}
		g.assignNumber(v)
		names.values[v.Name] = v
		n.Out = append(n.Out, v)
	}
	names.addNode(n)
	g.Nodes = append(g.Nodes, n)
	return n.Out
}

// rejectNode makes inference reject a node of the graph. Only the first reason is kept.
func (g *Graph) rejectNode(n *Node, err error) {
	if g.rejected[n.number] != nil {
		return
	}
	if g.rejected == nil {
		g.rejected = map[int32]error{}
	}
	g.rejected[n.number] = err
}

// placeholderOp returns the op of nodes that will be rejected because their op does not exist.
func placeholderOp(name string) *Op {
	return &Op{Semantics: Semantics{Name: name, Schema: SchemaOf[struct{}]()}}
}

// TakeErr returns the errors as [Graph.Err] does and clears them, so that building can continue without the rejected
// values.
func (g *Graph) TakeErr() error {
	err := g.Err()
	g.errs = nil
	return err
}
