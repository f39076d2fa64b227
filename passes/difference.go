package passes

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// DifferenceOf compares two planned graphs of the same decisions, and returns the first difference that affects a run:
// in the nodes, their attributes, implementations and walks, in the layouts and memory of values, or in the data of
// constants. Only of outputs, it also compares strides of dimensions of size 1. It returns nil if there is none.
func DifferenceOf(a, b *graph.Graph) error {
	if a == nil || b == nil {
		return errors.New("a graph is nil")
	}
	if len(a.Nodes) != len(b.Nodes) || len(a.Outputs) != len(b.Outputs) {
		return fmt.Errorf("%d nodes and %d outputs, or %d and %d", len(a.Nodes), len(a.Outputs), len(b.Nodes),
			len(b.Outputs))
	}
	for i, n := range a.Nodes {
		if err := nodeDifference(n, b.Nodes[i]); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	for i, output := range a.Outputs {
		other := b.Outputs[i]
		if output.Name != other.Name || output.Base != other.Base || output.Pin != other.Pin {
			return fmt.Errorf("output %s or %s", output.Name, other.Name)
		}
		if v := output.Value; v != nil && other.Value != nil && !v.Meta.SameLayout(other.Value.Meta) {
			return fmt.Errorf("output %s is %v or %v", output.Name, v.Meta, other.Value.Meta)
		}
		if err := valueDifference(output.Value, other.Value); err != nil {
			return fmt.Errorf("output %s: %w", output.Name, err)
		}
	}
	return nil
}

// nodeDifference returns the first difference of two nodes.
func nodeDifference(n, other *graph.Node) error {
	switch {
	case n == nil || other == nil || n.Op == nil || other.Op == nil:
		return errors.New("a node has no op")
	case n.Name != other.Name || n.Op != other.Op:
		return fmt.Errorf("%s of op %s, or %s of op %s", n.Name, n.Op.Name, other.Name, other.Op.Name)
	case len(n.In) != len(other.In) || len(n.Out) != len(other.Out):
		return fmt.Errorf("%d operands and %d results, or %d and %d", len(n.In), len(n.Out), len(other.In), len(other.Out))
	case n.Impl != other.Impl:
		return fmt.Errorf("implementation %s or %s", implName(n.Impl), implName(other.Impl))
	case n.Walk.LoopOrder != other.Walk.LoopOrder || !slices.Equal(n.Walk.ResultOrders, other.Walk.ResultOrders):
		return fmt.Errorf("walk %v or %v", n.Walk, other.Walk)
	}
	for i, arg := range n.In {
		otherArg := other.In[i]
		if arg.Kind != otherArg.Kind || arg.Number != otherArg.Number {
			return fmt.Errorf("operand %d: %v or %v", i, arg, otherArg)
		}
		if arg.Kind == graph.TensorArg {
			if err := valueDifference(arg.Value, otherArg.Value); err != nil {
				return fmt.Errorf("operand %d: %w", i, err)
			}
		}
	}
	for i, v := range n.Out {
		if err := valueDifference(v, other.Out[i]); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	fused, isFused := n.Attrs.(*fusion.Fusion)
	otherFused, _ := other.Attrs.(*fusion.Fusion)
	if isFused {
		return fused.DifferenceOf(otherFused)
	}
	if n.Packing() == nil && !graph.SameAttrs(n, other) {
		return fmt.Errorf("attributes %+v or %+v", n.Attrs, other.Attrs)
	}
	return nil
}

// implName returns the name of an implementation, which may be nil.
func implName(impl *graph.Impl) string {
	if impl == nil {
		return "none"
	}
	return impl.Name
}

// valueDifference returns the first difference of two values.
func valueDifference(v, other *graph.Value) error {
	nameOf := func(v *graph.Value) string {
		if v == nil {
			return "none"
		}
		return v.Name
	}
	switch {
	case v == nil || other == nil:
		return errors.New("a value is missing")
	case v.Name != other.Name:
		return fmt.Errorf("value %s or %s", v.Name, other.Name)
	case v.Meta.DType != other.Meta.DType || v.Meta.Offset != other.Meta.Offset || !v.Meta.SameAddresses(other.Meta):
		return fmt.Errorf("%s is %v at %d or %v at %d", v.Name, v.Meta, v.Meta.Offset, other.Meta, other.Meta.Offset)
	case !v.Type.IsMeta(v.Meta):
		return fmt.Errorf("%s is %v, of type %v", v.Name, v.Meta, v.Type)
	case nameOf(v.Alias) != nameOf(other.Alias):
		return fmt.Errorf("%s is a view of %s or %s", v.Name, nameOf(v.Alias), nameOf(other.Alias))
	case nameOf(v.ContainedIn) != nameOf(other.ContainedIn):
		return fmt.Errorf("%s is within %s or %s", v.Name, nameOf(v.ContainedIn), nameOf(other.ContainedIn))
	case (v.Const == nil) != (other.Const == nil) || (v.Packed == nil) != (other.Packed == nil):
		return fmt.Errorf("%s is a constant, or packed, in one of the graphs", v.Name)
	case v.Packed != nil && v.Packed.Format != other.Packed.Format:
		return fmt.Errorf("%s is packed as %q or %q", v.Name, v.Packed.Format, other.Packed.Format)
	case v.Const != nil && v.Const.Storage() != other.Const.Storage() && !sameBits(v.Const, other.Const):
		return fmt.Errorf("%s has other elements", v.Name)
	}
	return nil
}

// sameBits reports whether two tensors have the same bits.
func sameBits(a, b *tensor.Tensor) bool {
	bytesOf := func(t *tensor.Tensor) (all []byte) {
		_ = t.EachBlock(1<<20, func(block []byte) error {
			all = append(all, block...)
			return nil
		})
		return all
	}
	return bytes.Equal(bytesOf(a), bytesOf(b))
}
