package layout

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// draft is an [Assignment] under construction: see [Solve]. An assignment has a [Choice] for each node: an
// implementation, a walk (the order of the loops), and the copies that the node reads in place of its operands. Nodes
// are decided in the order of the graph. The choices for earlier nodes determine layouts and copies of values, which
// the draft records. The layouts before any choice, as in eager PyTorch, are called the layouts of the graph as
// written.
//
// For example, let the choice for a convolution be channels-last order. The relu that reads its result then gives a
// channels-last result, too, although both results have the order (N,C,H,W) in the graph as written. Both are in
// changedLayouts. If a reshape cannot view the relu's result in this layout, it reads a row-major copy, which all
// readers of this order share.
type draft struct {
	problem        *Problem
	assignment     *Assignment
	changedLayouts map[*graph.Value]valueLayout // values whose layout differs from the graph as written
	sharedCopies   map[*graph.Value]*Copy       // copies that all readers of a value read; set by shareCopy
	copies         map[copyKey]*Copy            // all copies so far

	// Buffers that infer reuses for each node.
	call         graph.Call
	written      []graph.Result // results of a node with unchanged operands, as in the graph as written
	writtenMetas []tensor.Meta  // the layouts of these results
}

// valueLayout is the layout of a value that follows from the choices so far.
type valueLayout struct {
	meta   tensor.Meta
	isView bool // whether the value is a view of an operand
}

// copyKey identifies a copy: calls with equal keys return the same copy.
type copyKey struct {
	value        *graph.Value
	order        tensor.Order
	exactStrides bool // whether the copy has the exact strides of the graph as written
}

// newDraft starts an assignment.
func newDraft(problem *Problem) *draft {
	g := problem.Graph
	assignment := &Assignment{Nodes: make([]Choice, len(g.Nodes)), Outputs: make([]*Copy, len(g.Outputs)),
		LostOutputs: make([]bool, len(g.Outputs)), Lost: map[*graph.Value]bool{}}
	return &draft{problem: problem, assignment: assignment, changedLayouts: map[*graph.Value]valueLayout{},
		sharedCopies: map[*graph.Value]*Copy{}, copies: map[copyKey]*Copy{}}
}

// meta returns the layout of a value that follows from the choices so far. Copies of the value may have other
// layouts.
func (d *draft) meta(v *graph.Value) tensor.Meta {
	if changed, ok := d.changedLayouts[v]; ok {
		return changed.meta
	}
	return v.Meta
}

// copyTo returns the copy of a value in an order. All calls for the same order return the same copy. why is the reason
// shown to users.
func (d *draft) copyTo(v *graph.Value, order tensor.Order, why string) *Copy {
	return d.copyFor(copyKey{value: v, order: order}, why)
}

// copyAsWritten returns a copy with the strides of the graph as written.
func (d *draft) copyAsWritten(v *graph.Value, why string) *Copy {
	order, _ := tensor.OrderOf(v.Meta)
	return d.copyFor(copyKey{value: v, order: order, exactStrides: true}, why)
}

// copyFor returns the copy with a key, and creates it at the first call. A pinned copy of the value, if any, is the
// source.
func (d *draft) copyFor(key copyKey, why string) *Copy {
	c := d.copies[key]
	if c == nil {
		c = &Copy{Value: key.value, Order: key.order, Why: why}
		if key.exactStrides {
			c.Strides = key.value.Meta.Strides
		}
		if pinned := d.sharedCopies[key.value]; pinned != nil && pinned.Pinned {
			c.From = pinned
		}
		d.copies[key] = c
	}
	return c
}

// copyMeta returns the layout of a copy.
func (d *draft) copyMeta(copied *Copy) tensor.Meta {
	return copied.Lay(d.meta(copied.Value))
}

// readLayout returns the layout in which other nodes read v, and the shared copy that they read. The copy is nil if
// they read v itself.
func (d *draft) readLayout(v *graph.Value) (meta tensor.Meta, sharedCopy *Copy) {
	if c := d.sharedCopies[v]; c != nil {
		return d.copyMeta(c), c
	}
	return d.meta(v), nil
}

// infer infers the results of a node from the current layouts of its operands, and records the copies that it reads. If
// the op of a view node rejects the current layout of its operand, infer tries a row-major copy, then a copy with the
// layout of the graph as written.
func (d *draft) infer(n *graph.Node, choice *Choice) (*graph.Call, []graph.Result, error) {
	call := &d.call
	*call = graph.Call{In: n.In, Attrs: n.Attrs}
	// With unchanged operands, the results have the layouts of the graph as written.
	if anyReplaced := d.replaceOperands(n, choice, call); !anyReplaced && !n.Pin.SetsLayout() {
		d.setWritten(n)
		call.Out = d.writtenMetas
		return call, d.written, nil
	}
	results, err := n.Op.Infer(call)
	if err != nil && n.Op.Kind == graph.View && n.In[0].Kind == graph.TensorArg {
		results, err = d.inferViewOfCopy(n, choice, call)
	}
	for _, result := range results {
		call.Out = append(call.Out, result.Meta())
	}
	return call, results, err
}

// setWritten sets written and writtenMetas to the results of a node in the graph as written.
func (d *draft) setWritten(n *graph.Node) {
	d.written, d.writtenMetas = d.written[:0], d.writtenMetas[:0]
	for _, v := range n.Out {
		result := graph.Result{Type: v.Type, Alias: graph.NoAlias}
		if v.Alias != nil {
			result.Alias = slices.IndexFunc(n.In, func(arg graph.Arg) bool { return arg.Value == v.Alias })
		}
		d.written, d.writtenMetas = append(d.written, result), append(d.writtenMetas, v.Meta)
	}
}

// replaceOperands replaces, in a call of node n, each operand whose layout differs from the graph as written. It adds
// the copies that the node reads to the node's choice. It reports whether it replaced any operand.
func (d *draft) replaceOperands(n *graph.Node, choice *Choice, call *graph.Call) (anyReplaced bool) {
	for k, arg := range n.In {
		v := arg.Value
		if arg.Kind != graph.TensorArg || n.Op.RunDynamic != nil && v.Const != nil {
			continue // inference of an op with results of data-dependent size reads the data of the constant itself
		}
		meta, operandCopy := d.readLayout(v)
		readsPinnedCopy := operandCopy != nil && operandCopy.Pinned
		if readsPinnedCopy && d.problem.needsLayoutAsWritten(n) && v.Meta.IsNonOverlappingAndDense() {
			operandCopy = d.copyAsWritten(v,
				fmt.Sprintf("%s views %q in the layout of the graph as written", n.Name, v.Name))
			meta = d.copyMeta(operandCopy)
		}
		if _, isChanged := d.changedLayouts[v]; isChanged || operandCopy != nil {
			if !anyReplaced {
				call.In, anyReplaced = slices.Clone(n.In), true
			}
			d.replaceOperand(choice, call, k, v, meta, operandCopy)
		}
	}
	return anyReplaced
}

// replaceOperand gives operand k of a call, the value v, the layout meta. The choice then reads operandCopy, or v
// itself if operandCopy is nil.
func (d *draft) replaceOperand(choice *Choice, call *graph.Call, k int, v *graph.Value, meta tensor.Meta,
	operandCopy *Copy) {
	replaced := &graph.Value{Name: v.Name, Node: v.Node, Index: v.Index, Meta: meta, Type: meta.Type()}
	call.In[k] = graph.Arg{Kind: graph.TensorArg, Value: replaced}
	if operandCopy == nil {
		return
	}
	if choice.In == nil {
		choice.In = make([]*Copy, len(call.In))
	}
	choice.In[k] = operandCopy
}

// inferViewOfCopy infers the results of a view node from the first of viewOperands that its op accepts. If there is
// none, it returns the last error.
func (d *draft) inferViewOfCopy(n *graph.Node, choice *Choice, call *graph.Call) (results []graph.Result, err error) {
	operand := n.In[0].Value
	call.In = slices.Clone(call.In)
	for _, operandCopy := range d.viewOperands(n) {
		if choice.In != nil {
			choice.In[0] = nil
		}
		meta := d.meta(operand)
		if operandCopy != nil {
			meta = d.copyMeta(operandCopy)
		}
		const operandIndex = 0
		d.replaceOperand(choice, call, operandIndex, operand, meta, operandCopy)
		if results, err = n.Op.Infer(call); err == nil {
			break
		}
	}
	return results, err
}

// viewOperands lists the operands that infer tries for a view: first the row-major copy, then the copy in the layout of
// the graph as written. A nil entry means the operand itself.
func (d *draft) viewOperands(n *graph.Node) []*Copy {
	v, why := n.In[0].Value, fmt.Sprintf("%s cannot view the chosen layout", n.Name)
	list := []*Copy{d.copyTo(v, tensor.RowMajorOrder(v.Meta.Rank()), why)}
	if _, isChanged := d.changedLayouts[v]; !isChanged && !v.EffectivePin().SetsLayout() {
		return append(list, nil) // the operand itself has the layout of the graph as written
	}
	return append(list, d.copyAsWritten(v, why))
}

// recordResult stores the layout of v, a result of a node, if this layout differs from the graph as written.
// resultIndex is the index of v among the node's results.
func (d *draft) recordResult(v *graph.Value, choice *Choice, result graph.Result, resultIndex int) {
	isView := result.Alias >= 0
	meta := result.Meta()
	if isView && meta.SameAddresses(v.Meta) {
		meta.Strides = v.Meta.Strides // including the strides of dimensions of size 1
	}
	if !isView {
		meta = choice.Walk.ResultLayout(resultIndex, meta)
		if choice.ExactStrides && meta.SameAddresses(v.Meta) && !meta.SameLayout(v.Meta) {
			// Only strides of dimensions of size 1 differ: keep the strides of the graph as written.
			meta = v.Meta
			setResultOrder(&choice.Walk, resultIndex, meta)
		}
	}
	wasView := v.Alias != nil
	if isView != wasView || !meta.SameLayout(v.Meta) || meta.Offset != v.Meta.Offset {
		d.changedLayouts[v] = valueLayout{meta: meta, isView: isView}
	}
}

// setResultOrder sets the order of one result of a walk to the order of meta. It does not change the slice that the
// walk shares with other walks.
func setResultOrder(walk *graph.Walk, resultIndex int, meta tensor.Meta) {
	orders := make([]tensor.Order, max(resultIndex+1, len(walk.ResultOrders)))
	copy(orders, walk.ResultOrders)
	orders[resultIndex], _ = tensor.OrderOf(meta)
	walk.ResultOrders = orders
}
