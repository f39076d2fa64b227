package passes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/panics"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/report"
	"github.com/graphrun/graphrun/tensor"
)

// layOut is the layout pass: it removes permutations that cancel out, chooses layouts and implementations, inserts
// copies, and removes superfluous copies. No later pass adds or removes copies of non-constant values.
func layOut(plan *Plan) error {
	elidedBefore := len(plan.Elided)
	if err := cancelPermutes(plan); err != nil {
		return err
	}
	if err := chooseLayouts(plan); err != nil {
		return err
	}
	elideCopies(plan)
	if n := len(plan.Elided) - elidedBefore; n > 0 {
		plan.Note("%s", countText(n, "node dropped", "nodes dropped"))
	}
	return nil
}

// chooseLayouts asks the strategy for an assignment and applies it.
func chooseLayouts(plan *Plan) error {
	if plan.options.Follow != nil {
		return plan.followLayouts()
	}
	problem := layout.NewProblem(plan.Graph, plan.options.Profile)
	// The plan reports costs by the prices that the strategy uses.
	plan.options.Profile, plan.profileAdjusted = problem.Profile, true
	problem.Options = plan.options.Options
	if plan.options.Exact {
		plan.noteExact()
	}
	if err := checkStoragePins(plan.Graph); err != nil {
		return err
	}
	assignment, err := plan.callStrategy(problem)
	if err != nil {
		return err
	}
	plan.Model, plan.Solution, plan.Preference = assignment.Model, assignment.Solution, assignment.Preference
	plan.placementsChosen = graph.NewByValue[bool](plan.Graph)
	for _, v := range assignment.Placed {
		plan.placementsChosen.Set(v, true)
	}
	plan.noteLayouts(assignment)
	return newLayouter(plan).apply(assignment)
}

// callStrategy calls the strategy, and checks that the assignment has a choice for each node and output. It converts a
// panic of the strategy to an error, because the strategy may be the caller's code.
func (p *Plan) callStrategy(problem *layout.Problem) (assignment *layout.Assignment, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("strategy %s: %w", p.Strategy, panics.Error(panicked))
		}
	}()
	assignment, err = p.options.Strategy.Choose(problem)
	switch {
	case err != nil:
		return nil, err
	case assignment == nil:
		return nil, fmt.Errorf("strategy %s returned no assignment (nil)", p.Strategy)
	case len(assignment.Nodes) != len(p.Graph.Nodes) || len(assignment.Outputs) != len(p.Graph.Outputs):
		return nil, fmt.Errorf("strategy %s returned choices for %d of %d nodes and %d of %d outputs", p.Strategy,
			len(assignment.Nodes), len(p.Graph.Nodes), len(assignment.Outputs), len(p.Graph.Outputs))
	}
	return assignment, nil
}

// noteExact notes how many nodes have implementations that [Options.Exact] excludes.
func (p *Plan) noteExact() {
	nodeCount := 0
	for _, node := range p.Graph.Nodes {
		call := node.Call()
		hasInexact := slices.ContainsFunc(node.Op.Impls, func(impl graph.Impl) bool {
			return impl.Inexact && len(impl.Walks(call, nil)) > 0
		})
		if hasInexact {
			nodeCount++
		}
	}
	if nodeCount > 0 {
		p.Note("inexact implementations of %s are excluded", countText(nodeCount, "node", "nodes"))
	}
}

// layouter applies an assignment: it inserts the copies, infers the layouts that depend on them, and sets the assigned
// layouts of results. An assignment has a [layout.Choice] for each node: the implementation, the walk (loop order), and
// the copies that the node reads in place of its operands. A [layout.Copy] has another layout or place than its value;
// if Original is set, it is the value itself. The graph as written is the graph before the layout pass. For example, if
// the assignment chooses channels-last for y = conv(x, w) and the output must be row-major, the graph becomes
//
//	x.channels_last = copy(x); y = conv(x.channels_last, w); y.contiguous = copy(y)
//
// where the name of a copy is the name of the value with the order of its dimensions.
type layouter struct {
	plan            *Plan
	graph           *graph.Graph
	nodes           []*graph.Node                 // nodes of the resulting graph so far, copies included
	insertedCopies  map[*layout.Copy]*graph.Value // values of the copies inserted so far
	originalLayouts []originalLayout              // buffer of applyChoice
	changedLayouts  map[*graph.Value]bool         // values whose layout differs from the graph as written
	views           map[viewKey]*graph.Node       // repeated view nodes: see repeatedNode
	originalTypes   map[*graph.Value]tensor.Type  // of results with unknown sizes: their types in the graph as written
	fromOtherSizes  bool                          // the assignment was made for other sizes and may not apply
}

// newLayouter returns the state before any copy is inserted.
func newLayouter(plan *Plan) *layouter {
	return &layouter{plan: plan, graph: plan.Graph, insertedCopies: map[*layout.Copy]*graph.Value{},
		changedLayouts: map[*graph.Value]bool{}, views: map[viewKey]*graph.Node{},
		originalTypes: map[*graph.Value]tensor.Type{}}
}

// apply rebuilds the graph with the choices and the copies of an assignment: first the copies of inputs, then each node
// with its copies, then the outputs.
func (l *layouter) apply(assignment *layout.Assignment) error {
	nodes := l.graph.Nodes
	l.nodes = make([]*graph.Node, 0, len(nodes)+len(nodes)/8)
	if err := l.insertInputCopies(assignment.Inputs); err != nil {
		return err
	}
	for i, n := range nodes {
		interrupt.Check(l.plan.options.Context)
		if err := l.applyChoice(n, &assignment.Nodes[i]); err != nil {
			return l.graph.NodeError(n, err)
		}
	}
	outputs, err := l.insertOutputCopies(assignment)
	if err != nil {
		return err
	}
	l.graph.Outputs, l.graph.Nodes = outputs, l.nodes
	l.summarize()
	return nil
}

// insertInputCopies inserts the copies of inputs.
func (l *layouter) insertInputCopies(list []*layout.Copy) error {
	for _, inputCopy := range list {
		copied, err := l.valueOf(inputCopy) // inserts the node that makes the copy
		if err != nil {
			return err
		}
		if inputCopy.Pinned {
			l.setPin(copied, inputCopy.Value.Pin)
			l.recordPinSource(inputCopy.Value, inputCopy.Value.Name)
		}
	}
	return nil
}

// applyChoice applies the choice for one node: it replaces the operands, sets the implementation and the layouts of the
// results, and inserts the copies of the results. If the choice was made for other sizes, it also finds an
// implementation that supports the current sizes, and checks the layouts.
func (l *layouter) applyChoice(n *graph.Node, choice *layout.Choice) error {
	if choice.Removed {
		return l.removeNode(n, choice)
	}
	originals := l.originalLayouts[:0]
	for _, v := range n.Out {
		originals = append(originals, originalLayout{v.Type, v.Meta, v.Alias})
		if !hasNumericSizes(v.Type) {
			l.originalTypes[v] = v.Type
		}
	}
	l.originalLayouts = originals
	if err := l.replaceOperands(n, choice); err != nil {
		return err
	}
	n.Impl, n.Walk = choice.Impl, choice.Walk
	if l.fromOtherSizes {
		var err error
		if n.Impl, n.Walk, err = implFor(n, choice, l.plan.options.Exact); err != nil {
			return err
		}
		l.plan.template.recordChoice(n, choice)
	}
	for i, v := range n.Out {
		l.setResultLayout(v, i, choice, originals[i])
	}
	l.nodes = append(l.nodes, n)
	if err := l.insertResultCopies(n, choice); err != nil {
		return err
	}
	if l.fromOtherSizes {
		return l.checkNodeLayouts(n)
	}
	return nil
}

// removeNode omits a node from the resulting graph. Only the copies of its results remain.
func (l *layouter) removeNode(n *graph.Node, choice *layout.Choice) error {
	if err := l.insertResultCopies(n, choice); err != nil {
		return err
	}
	if len(choice.ResultCopies) == 0 && n.Op.Identity { // a copy; removed views are not recorded
		source := n.In[0].Value
		why := fmt.Sprintf("all its readers read %q, or a copy of it", source.Name)
		if n.Out[0].Alias == source {
			why = whyRedundant(source)
		}
		l.plan.Elided = append(l.plan.Elided, report.Elision{Node: n.Name, Why: why})
	}
	return nil
}

// replaceOperands replaces the operands of a node by the assigned copies. If the layout of an operand changes, it
// infers the node again.
func (l *layouter) replaceOperands(n *graph.Node, choice *layout.Choice) error {
	// A pinned node writes the inferred layout; its result is then copied to the pinned layout.
	inferAgain := n.Pin.SetsLayout()
	for i := range n.In {
		arg := &n.In[i]
		if arg.Kind != graph.TensorArg {
			continue
		}
		var replacement *layout.Copy
		if i < len(choice.In) {
			replacement = choice.In[i]
		}
		if l.fromOtherSizes && n.Op.ReadsStorage && !l.storageAsWritten(arg.Value, replacement) {
			return misfitError("%s reads the bytes of its operand's memory, which would not have the layout of the graph "+
				"as written", n.Name)
		}
		if replacement != nil {
			v, err := l.valueOf(replacement)
			if err != nil {
				return err
			}
			arg.Value, inferAgain = v, true
		}
		inferAgain = inferAgain || l.changedLayouts[arg.Value]
	}
	if inferAgain {
		return inferOutputs(n)
	}
	return nil
}

// originalLayout is the layout of a value in the graph as written.
type originalLayout struct {
	symbolicType tensor.Type
	meta         tensor.Meta
	alias        *graph.Value
}

// inferOutputs sets the types and metas of a node's outputs from the current operands.
func inferOutputs(n *graph.Node) error {
	results, err := n.Results()
	if err != nil {
		return err
	}
	for i, v := range n.Out {
		v.Type, v.Meta, v.Alias = results[i].Type, results[i].Meta(), nil
		if results[i].Alias >= 0 {
			v.Alias = n.In[results[i].Alias].Value
		}
	}
	return nil
}

// setResultLayout sets the layout of v, which is result i of a node. The chosen walk (a loop order with layouts of the
// results) determines this layout. If v is a view whose elements have their original addresses, v also gets its
// original strides in dimensions of size 1. If sizes are unknown, guardOriginalStrides records the sizes for which the
// original strides are right.
func (l *layouter) setResultLayout(v *graph.Value, i int, choice *layout.Choice, original originalLayout) {
	switch {
	case v.Alias == nil:
		l.setWalkLayout(v, i, choice, original)
	case v.Meta.SameAddresses(original.meta) && !v.Meta.SameLayout(original.meta):
		guardOriginalStrides(v, "", original.symbolicType) // "": no other order than the order of v
		v.Type.Strides, v.Meta.Strides = original.symbolicType.Strides, original.meta.Strides
	}
	wasView, isView := original.alias != nil, v.Alias != nil
	if isView != wasView || !v.Meta.SameLayout(original.meta) || v.Meta.Offset != original.meta.Offset {
		l.changedLayouts[v] = true
	}
}

// setWalkLayout is setResultLayout for a result that is not a view. The result gets the original strides if the
// layout of the walk has the original addresses.
func (l *layouter) setWalkLayout(v *graph.Value, i int, choice *layout.Choice, original originalLayout) {
	meta, order := v.Node.Walk.ResultLayout(i, v.Meta), orderAt(v.Node.Walk.ResultOrders, i)
	keepsOriginal := meta.SameAddresses(original.meta)
	if keepsOriginal && l.fromOtherSizes {
		guardOriginalStrides(v, order, original.symbolicType)
	}
	switch {
	case keepsOriginal && !original.meta.SameLayout(v.Meta):
		v.Type, v.Meta = original.symbolicType, original.meta
	case !keepsOriginal && !meta.SameLayout(v.Meta):
		setLayout(v, meta, order)
	}
}

// setLayout sets the layout of v to meta, which has the given order. If sizes are unknown, strides of the type are
// expressions.
func setLayout(v *graph.Value, meta tensor.Meta, order tensor.Order) {
	if hasNumericSizes(v.Type) || order == "" || order.Rank() != len(v.Type.Shape) {
		v.SetMeta(meta)
		return
	}
	v.Type, v.Meta = v.Type.WithStrides(order.SymbolicStrides(v.Type.Shape)), meta
}

// orderAt returns element i of a list, or "" beyond its end.
func orderAt(list []tensor.Order, i int) tensor.Order {
	if i < len(list) {
		return list[i]
	}
	return ""
}

// insertResultCopies inserts the copies of a node's results. A pinned copy gets the name and the pin of the value.
func (l *layouter) insertResultCopies(n *graph.Node, choice *layout.Choice) error {
	pin := n.Pin
	for _, resultCopy := range choice.ResultCopies {
		copied, err := l.valueOf(resultCopy)
		if err != nil {
			return err
		}
		if resultCopy.Pinned {
			// The pinned value is the copy, so it gets the name and the layout of the pin.
			unpinned := resultCopy.Value
			name := unpinned.Name
			l.graph.Rename(unpinned, l.graph.UniqueName(name+".unpinned"))
			l.graph.Rename(copied, name)
			n.Pin = graph.Pin{Impl: n.Pin.Impl, Device: n.Pin.Device} // without the layout
			l.setPin(copied, pin)
			l.recordPinSource(unpinned, name)
		}
	}
	return nil
}

// insertOutputCopies inserts the copies of outputs, and returns the outputs of the resulting graph.
func (l *layouter) insertOutputCopies(assignment *layout.Assignment) (outputs []graph.Output, err error) {
	for i, output := range l.graph.Outputs {
		if outputCopy := assignment.Outputs[i]; outputCopy != nil {
			copied, err := l.valueOf(outputCopy)
			if err != nil {
				return nil, fmt.Errorf("output %q: %w", output.Name, err)
			}
			output.Value = copied
		}
		outputs = append(outputs, output)
	}
	return outputs, nil
}

// summarize notes how many layouts and implementations were chosen, and how many copies were inserted. Copies of
// constants do not count.
func (l *layouter) summarize() {
	layouts, impls, copies := 0, 0, 0
	for _, n := range l.graph.Nodes {
		if n.Impl == nil {
			continue
		}
		impls++
		for _, result := range n.Out {
			if result.Alias == nil {
				layouts++
			}
		}
	}
	for c, v := range l.insertedCopies {
		if !c.Original && c.Value.Const == nil && v.Alias == nil {
			copies++
		}
	}
	if impls > 0 {
		l.plan.Note("%s and %s chosen, %s", cmp.Or(countText(layouts, "layout", "layouts"), "0 layouts"),
			countText(impls, "implementation", "implementations"), cmp.Or(countText(copies, "copy inserted", "copies inserted"),
				"0 copies inserted"))
	}
}

// This part makes the copies of an assignment ([layout.Copy]): the value itself, a copy, a transfer between host and
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
	device, isTransfer := l.plan.options.Device, planned.Place != from.Place()
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
	l.setCopyLayout(out, copyLayout, planned)
	copyNode.Impl, copyNode.Walk = impl, copyNode.Call().WalkInOrder(planned.Order)
	l.nodes = append(l.nodes, copyNode)
	return out, nil
}

// setCopyLayout sets the layout of the result of a copy. If sizes are unknown, strides of the type are expressions:
// those of the order, or the exact strides of the value in the graph as written.
func (l *layouter) setCopyLayout(out *graph.Value, meta tensor.Meta, planned *layout.Copy) {
	setLayout(out, meta, planned.Order)
	if planned.Strides != nil && !hasNumericSizes(out.Type) {
		out.Type = out.Type.WithStrides(l.originalType(planned.Value).Strides)
	}
}

// originalType returns the type of a value in the graph as written.
func (l *layouter) originalType(v *graph.Value) tensor.Type {
	if original, ok := l.originalTypes[v]; ok {
		return original
	}
	return v.Type
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
		if planned.Strides != nil && exactMeta.SameAddresses(out.Meta) {
			if original := l.originalType(planned.Value); !hasNumericSizes(out.Type) {
				guardOriginalStrides(out, "", original)
				out.Type.Strides, out.Meta.Strides = original.Strides, planned.Strides
			} else {
				out.SetMeta(exactMeta)
			}
		}
	case planned.Order == "":
		return nil, fmt.Errorf("%s cannot view %q", view.Name, operand.Name)
	default: // a copy
		view.Impl, view.Walk = &view.Op.Impls[0], view.Call().WalkInOrder(planned.Order)
		setLayout(out, view.Walk.ResultLayout(0, out.Meta), planned.Order)
		if planned.Strides != nil {
			l.setCopyLayout(out, planned.Lay(out.Meta), planned)
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
