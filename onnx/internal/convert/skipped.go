package convert

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// This file imports models with mistakes. A node that cannot be converted, or that depends on such a node, becomes a
// node that inference rejects. The caller may drop the rejected nodes and run the other nodes, as with
// graphfile.ParseSome. If a node of a nested graph or of an unrolled loop cannot be converted, the whole nested graph
// or loop is rejected.

// ErrUnavailableOperand matches ([errors.Is]) the error of a node that reads an unavailable value. The reason why the
// value is unavailable is a separate error.
var ErrUnavailableOperand = errors.New("an operand is unavailable")

// unavailableError is the error of a node that reads an unavailable value.
type unavailableError struct{ value *Value }

// Error names the value.
func (e *unavailableError) Error() string {
	if e.value.graphValue != nil {
		return fmt.Sprintf("depends on %q, which was rejected", e.value.graphValue.Name)
	}
	return fmt.Sprintf("depends on %s %q, which cannot be read", e.value.source, e.value.name)
}

// Is reports whether target is [ErrUnavailableOperand].
func (e *unavailableError) Is(target error) bool { return target == ErrUnavailableOperand }

// skipValue records that an initializer or an input is unavailable. source is "initializer" or "input".
func (im *importer) skipValue(s *scope, source, name string, err error) {
	_ = im.graph.TakeErr() // clears the error, so that the graph accepts further nodes
	im.skipped = append(im.skipped, &graph.Error{Err: withSubject(source, name, err)})
	s.values[name] = &Value{name: name, kind: unavailableKind, source: source}
}

// withSubject prefixes an error with its subject, if the error does not begin with the subject yet.
func withSubject(kind, name string, err error) error {
	if prefix := fmt.Sprintf("%s %q: ", kind, name); !strings.HasPrefix(err.Error(), prefix) {
		return fmt.Errorf("%s%w", prefix, err)
	}
	return err
}

// skipOutput records that an output of the graph is unavailable.
func (im *importer) skipOutput(name string, err error) {
	_ = im.graph.TakeErr()
	im.skipped = append(im.skipped, im.graph.OutputError(graph.Output{Name: name}, err))
}

// skipNode replaces the node by a node that inference rejects with err. The results get the names in outputs. If an
// unavailable value of the graph is the reason, this value becomes the operand of the new node. Other reasons are
// counted.
func (n *Node) skipNode(err error, outputs []string) {
	_ = n.graph.TakeErr() // clears errors of the node's converter
	var operands []*graph.Value
	var unavailable *unavailableError
	if errors.As(err, &unavailable) && unavailable.value.graphValue != nil {
		operands = []*graph.Value{unavailable.value.graphValue}
	} else {
		n.rejectedCount++
	}
	for i, v := range n.graph.AddRejected(nameOf(n.proto), n.proto.OpType, outputs, err, operands...) {
		if i >= len(outputs) || outputs[i] == "" || n.scope.values[outputs[i]] != nil {
			continue
		}
		n.hasModelName[v] = true
		n.scope.values[outputs[i]] = &Value{name: outputs[i], graphValue: v, kind: unavailableKind}
	}
}

// canSkip reports whether the import may continue without the node that failed with err. It must not continue after a
// [limitError], which concerns the whole model.
func (f *frame) canSkip(err error) bool {
	return f.skipsInvalidNodes && !errors.As(err, new(limitError))
}

// convertCatchingMemory is [Node.convert]. If mistakes are skipped, a panic for lack of memory becomes an error of the
// node.
func (n *Node) convertCatchingMemory(domain string) (out []*Value, err error) {
	if n.frame.skipsInvalidNodes {
		defer tensor.CatchMemory(&err)
	}
	return n.convert(domain)
}

// bindOutputs adds the outputs of the node to the scope, and names them. If mistakes are skipped, each output with a
// mistake becomes a separate rejected node.
func (n *Node) bindOutputs(out []*Value) error {
	for i, name := range n.proto.Output {
		var err error
		switch {
		case name == "":
		case i >= len(out) || out[i] == nil:
			err = fmt.Errorf("output %d (%q) is not supported", i, name)
		case n.scope.values[name] != nil:
			err = fmt.Errorf("two values are named %q", name)
		default:
			n.scope.values[name] = out[i]
			n.importer.setName(out[i], name)
		}
		switch {
		case err == nil:
		case n.frame.skipsInvalidNodes:
			n.skipNode(err, []string{name})
		default:
			return err
		}
	}
	return nil
}

// catchingMemory calls decode. If mistakes are skipped, a panic for lack of memory becomes an error of the tensor.
func catchingMemory(f *frame, decode func() (*tensor.Tensor, error)) (_ *tensor.Tensor, err error) {
	if f.skipsInvalidNodes {
		defer tensor.CatchMemory(&err)
	}
	return decode()
}

// rebindSkippingErrors is [rebind] for a graph with nodes that inference rejects.
func rebindSkippingErrors(g *graph.Graph, sizes map[string]int) error {
	if len(g.Symbols) == 0 {
		return nil
	}
	// The given sizes are bound now. The default sizes are kept if inference does not reject more nodes at these sizes
	// than at the given sizes.
	rejected := len(g.InferAll())
	if err := g.BindWithoutInference(nil); err == nil && len(g.InferAll()) <= rejected {
		return nil
	}
	if err := g.BindWithoutInference(sizes); err != nil {
		return err
	}
	g.InferAll()
	for name, n := range sizes {
		g.Assume(name, n) // default sizes, which a caller may replace
	}
	return nil
}
