package passes

import (
	"fmt"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/tensor"
)

// This file makes the copies of an assignment ([layout.Copy]): the value itself, a copy, a transfer between host and
// device, or a repeated view. A Copy has an order of dimensions. It may also have strides, the exact strides of the
// value in the graph as written. They matter for outputs with dimensions of size 1.

// valueOf returns the value of copy c in the graph. The first call for c inserts the node that makes the copy.
func (l *layouter) valueOf(c *layout.Copy) (*graph.Value, error) {
	if v := l.insertedCopies[c]; v != nil {
		return v, nil
	}
	v, err := l.insertCopy(c)
	if err != nil {
		return nil, fmt.Errorf("copy of %q: %w", c.Value.Name, err)
	}
	l.insertedCopies[c] = v
	return v, nil
}

// insertCopy returns the value of a planned copy, and inserts the node that makes the copy if the graph does not have
// this node yet.
func (l *layouter) insertCopy(planned *layout.Copy) (*graph.Value, error) {
	if planned.Original {
		return planned.Value, nil
	}
	from := planned.Value
	if planned.From != nil {
		var err error
		if from, err = l.valueOf(planned.From); err != nil {
			return nil, err
		}
	}
	if planned.View {
		return l.repeatView(planned, from)
	}
	return l.insertCopyNode(planned, from)
}

// insertCopyNode inserts a node that copies a value to the order or to the place (host or device) of a planned copy.
func (l *layouter) insertCopyNode(planned *layout.Copy, from *graph.Value) (*graph.Value, error) {
	op, err := l.graph.CopyOp()
	if err != nil {
		return nil, err
	}
	copyLayout := planned.Lay(from.Meta)
	namePrefix := planned.Value.Name + "."
	name, impl := namePrefix+planned.Order.String(), &op.Impls[0]
	device, isTransfer := l.plan.device, planned.Place != from.Place()
	switch {
	case planned.Place == tensor.Host && !isTransfer: // within the host
	case device == nil:
		return nil, misfitError("a copy is on a device, but the program has none")
	case !isTransfer: // within the device
		name, impl = name+"."+device.Name(), device.Impl(op)
	case planned.Place == tensor.Host:
		name, impl = namePrefix+planned.Place.String(), device.Download()
	default:
		name, impl = namePrefix+device.Name(), device.Upload()
	}
	if isTransfer { // it keeps the layout
		copyLayout = from.Meta
		copyLayout.Offset = 0
	}
	copyNode, err := l.graph.Insert(name, op.Name, []graph.Arg{graph.ArgOf(from)}, nil, planned.Why)
	if err != nil {
		return nil, err
	}
	out := copyNode.Out[0]
	setLayout(out, copyLayout, planned.Order)
	copyNode.Impl, copyNode.Walk = impl, copyNode.Call().WalkInOrder(planned.Order)
	l.nodes = append(l.nodes, copyNode)
	return out, nil
}

// repeatView repeats the view node of planned.Value with another operand. If the op cannot make a view of that operand,
// the new node copies it to planned.Order.
func (l *layouter) repeatView(planned *layout.Copy, operand *graph.Value) (*graph.Value, error) {
	view, err := l.repeatedNode(planned, operand)
	if err != nil {
		return nil, err
	}
	out := view.Out[planned.Value.Index]
	switch {
	case out.Alias != nil: // a view
		exactMeta := out.Meta // with planned.Strides, which may differ in dimensions of size 1
		exactMeta.Strides = planned.Strides
		if planned.Strides != nil && hasNumericSizes(out.Type) && exactMeta.SameAddresses(out.Meta) {
			out.SetMeta(exactMeta)
		}
	case planned.Order == "":
		return nil, fmt.Errorf("%s cannot view %q", view.Name, operand.Name)
	default: // a copy
		view.Impl, view.Walk = &view.Op.Impls[0], view.Call().WalkInOrder(planned.Order)
		setLayout(out, view.Walk.ResultLayout(0, out.Meta), planned.Order)
		if planned.Strides != nil {
			setLayout(out, planned.Lay(out.Meta), planned.Order)
		}
	}
	return out, nil
}

// viewKey identifies the repetition of a view node with another operand.
type viewKey struct {
	node    *graph.Node
	operand *graph.Value
}

// repeatedNode returns a node that repeats the view node of planned.Value with another operand. Only repetitions that
// are views are shared. A repetition that copies has an order (planned.Order is set).
func (l *layouter) repeatedNode(planned *layout.Copy, operand *graph.Value) (*graph.Node, error) {
	v := planned.Value
	key := viewKey{v.Node, operand}
	if shared := l.views[key]; shared != nil && planned.Order == "" {
		return shared, nil
	}
	viewedIndex := 0
	for k, a := range v.Node.In {
		if a.Kind == graph.TensorArg && a.Value == v.Alias {
			viewedIndex = k
		}
	}
	repeated, err := l.graph.Again(v.Node, viewedIndex, operand, planned.Why)
	if err != nil {
		return nil, err
	}
	l.nodes = append(l.nodes, repeated)
	if planned.Order == "" {
		l.views[key] = repeated
	}
	return repeated, nil
}
