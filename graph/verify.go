package graph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/tensor"
)

// Props is a set of properties of a graph, in addition to the structure that all graphs have. Passes state the
// properties that they require, establish and invalidate.
type Props uint8

const (
	// Sorted means that every node follows the nodes whose outputs it uses.
	Sorted Props = 1 << iota
	// Typed means that shapes, dtypes and aliases are as the ops infer them. Strides are as inferred, too, if passes
	// may not choose another layout: see [Node.LayoutIsFree].
	Typed
	// LaidOut means that pins are met. Every node whose op has implementations has a chosen implementation, which supports
	// the layouts of the node's operands and outputs. If a graph has this property, passes may add and remove copies of
	// constants, but no other nodes.
	LaidOut
)

// Verify returns an [Errors] if the graph's structure is broken, or if a property of props does not hold. A graph that
// was loaded or built is Sorted and Typed. Verify checks first the inputs and constants, then each node with its
// operands and results, then the outputs, and last the memory of concatenations. For example, Verify(g, Sorted|Typed)
// fails if a pass inserted a node after one of its users, or changed operands without inferring the node again.
func Verify(g *Graph, props Props) error {
	if g == nil {
		return Errors{{Err: errNoGraph}}
	}
	state := &verifier{graph: g, visibleValues: make(map[*Value]bool, g.valueCount), valueNames: map[string]bool{},
		nodeNames: map[string]bool{}}
	state.checkInputs()
	if props&Sorted == 0 { // nodes may use outputs of later nodes
		for _, n := range g.Nodes {
			state.markComputed(n)
		}
	}
	for _, n := range g.Nodes {
		state.checkNode(n, props)
		state.markComputed(n)
	}
	state.checkOutputs(props)
	if len(state.errs) == 0 {
		state.checkConcatMemory()
	}
	if len(state.errs) > 0 {
		return state.errs
	}
	return nil
}

// verifier collects the errors of a graph.
type verifier struct {
	graph         *Graph
	errs          Errors
	visibleValues map[*Value]bool // values that the nodes verified next may use
	valueNames    map[string]bool
	nodeNames     map[string]bool
}

// fail adds an error, which names node n if n is not nil. At most maxErrors errors are kept.
func (v *verifier) fail(n *Node, format string, args ...any) {
	if len(v.errs) == maxErrors {
		return
	}
	err := fmt.Errorf(format, args...)
	if n == nil {
		v.errs = append(v.errs, &Error{Err: err})
		return
	}
	v.errs = append(v.errs, v.graph.NodeError(n, err))
}

// markComputed marks the node's outputs as computed, so that later nodes may use them.
func (v *verifier) markComputed(n *Node) {
	if n == nil {
		return
	}
	for _, output := range n.Out {
		v.visibleValues[output] = true
	}
}

// checkInputs checks the graph's inputs and constants, and makes them visible to nodes.
func (v *verifier) checkInputs() {
	for i, list := range [][]*Value{v.graph.Inputs, v.graph.Constants} {
		for _, value := range list {
			v.checkValue(nil, value)
			v.visibleValues[value] = true
			switch {
			case value == nil:
			case value.Node != nil || value.Alias != nil || value.ContainedIn != nil:
				v.fail(nil, "value %q is an input or a constant, but has a producer or shares storage", value.Name)
			case (i == 1) != (value.Const != nil): // list 1 has the constants
				v.fail(nil, "value %q is in the wrong list: constants have data, inputs have none", value.Name)
			case value.Const != nil && !value.Const.SameLayout(value.Meta):
				v.fail(nil, "constant %q: its meta is %v, its data %v", value.Name, value.Meta, value.Const.Meta)
			}
		}
	}
}

// checkValue checks the properties that every value must have.
func (v *verifier) checkValue(n *Node, value *Value) {
	switch {
	case value == nil:
		v.fail(n, "a value is nil")
		return
	case v.valueNames[value.Name]:
		v.fail(n, "two values are named %q", value.Name)
	case v.graph.nameIndex().values[value.Name] != value:
		v.fail(n, "a look-up of the name %q does not return the value", value.Name)
	case value.graph != v.graph:
		v.fail(n, "value %q is of another graph", value.Name)
	}
	v.valueNames[value.Name] = true
	if err := value.Meta.Check(); err != nil {
		v.fail(n, "value %q: %v", value.Name, err)
	}
}

// checkNode checks the names, the operands and the aliases of a node and its results. It also checks types and layouts
// if props has Typed and LaidOut.
func (v *verifier) checkNode(n *Node, props Props) {
	switch {
	case n == nil:
		v.fail(nil, "a node is nil")
		return
	case len(n.Out) == 0:
		v.fail(n, "it makes no values")
		return
	case n.Op == nil:
		v.fail(n, "it has no op")
		return
	case v.nodeNames[n.Name]:
		v.fail(n, "two nodes are named %q", n.Name)
	case v.graph.nameIndex().node(n.Name) != n:
		v.fail(n, "a look-up of its name does not return the node")
	}
	v.nodeNames[n.Name] = true
	errCount := len(v.errs)
	v.checkOperands(n)
	for i, output := range n.Out {
		v.checkValue(n, output)
		if output != nil && (output.Node != n || output.Index != i) {
			v.fail(n, "output %d has another producer", i)
		}
	}
	if len(v.errs) > errCount {
		return
	}
	for _, output := range n.Out {
		if err := cmp.Or(output.checkAlias(), output.checkContainedIn()); err != nil {
			v.fail(n, "%v", err)
		}
	}
	if props&Typed != 0 {
		if err := n.checkTyped(); err != nil {
			v.fail(n, "%w", err)
		}
	}
	if props&LaidOut != 0 {
		for _, err := range n.checkLaidOut(nil) {
			v.fail(n, "%w", err)
		}
	}
}

// checkOperands checks that the operands are values before the node, and that the op takes this number of operands.
func (v *verifier) checkOperands(n *Node) {
	for i, arg := range n.In {
		switch {
		case arg.Kind != TensorArg:
		case arg.Value == nil:
			v.fail(n, "operand %d is a tensor, but its value is nil", i)
		case !v.visibleValues[arg.Value]:
			v.fail(n, "operand %d, %q, is not an input, a constant, or an output of an earlier node", i, arg.Value.Name)
		}
	}
	if err := n.checkArity(); err != nil {
		v.fail(n, "%v", err)
	}
}

// checkAlias checks that a view shares the storage of an operand of its node, and is within the storage of its root.
func (v *Value) checkAlias() error {
	if v.Alias == nil {
		return nil
	}
	if !slices.ContainsFunc(v.Node.In, func(arg Arg) bool { return arg.Value == v.Alias }) {
		return fmt.Errorf("value %q shares storage with %q, which is not an operand", v.Name, v.Alias.Name)
	}
	root, length := v.Root(), 0
	if root.Const != nil {
		length = root.Const.Storage().Len()
	} else {
		length = root.Meta.Extent() * root.Meta.DType.Size()
	}
	if need := v.Meta.Extent() * v.Meta.DType.Size(); need > length {
		return fmt.Errorf("value %q, %v, needs %d bytes of the storage of %q, which has %d", v.Name, v.Meta, need,
			root.Name, length)
	}
	return nil
}

// checkTyped returns an error if the outputs differ from the inferred results: see checkResult.
func (n *Node) checkTyped() error {
	call := &Call{In: n.In, Attrs: n.Attrs, Impl: n.Impl, Walk: n.Walk}
	results, err := n.Op.Infer(call)
	switch {
	case err != nil:
		return err
	case slices.ContainsFunc(results, func(inferred Result) bool { return inferred.Alias >= len(n.In) }):
		return errors.New("a result shares the storage of an operand that does not exist")
	case len(results) != len(n.Out):
		return fmt.Errorf("infers %d outputs, has %d", len(results), len(n.Out))
	}
	for i, inferred := range results {
		if err := n.checkResult(n.Out[i], inferred); err != nil {
			return fmt.Errorf("value %q: %w", n.Out[i].Name, err)
		}
	}
	return nil
}

// checkResult returns an error if an output differs from its inferred result in a way that is not permitted.
func (n *Node) checkResult(value *Value, inferred Result) error {
	var alias *Value
	meta := inferred.Meta()
	if inferred.Alias >= 0 {
		alias = n.In[inferred.Alias].Value
	}
	layoutIsFree := n.LayoutIsFree(n.Walk)
	hasInferredOffset := value.Meta.Offset == meta.Offset
	switch {
	case value.Meta.DType != meta.DType || !slices.Equal(value.Meta.Shape, meta.Shape):
		return fmt.Errorf("it is %v, inferred is %v", value.Meta, meta)
	case value.ContainedIn != nil: // checkContainedIn and checkWrites check the layout
		return nil
	case value.Alias == alias && hasInferredOffset && value.Meta.SameLayout(meta):
		return nil
	case value.Alias != nil && value.Alias == alias && hasInferredOffset && value.Meta.SameAddresses(meta):
		return nil // a view may have any strides in dimensions of size 1
	case value.Alias != nil || !layoutIsFree:
		return fmt.Errorf("it is %v%s, inferred is %v%s", value.Meta, aliasText(value.Alias), meta, aliasText(alias))
	case value.Meta.Offset != 0 || !value.Meta.IsNonOverlappingAndDense():
		return fmt.Errorf("its layout was chosen by a pass and must be dense, but %v is not", value.Meta)
	}
	return nil
}

// aliasText describes, for messages, the value whose storage a view shares.
func aliasText(alias *Value) string {
	if alias == nil {
		return ""
	}
	return fmt.Sprintf(" of %q", alias.Name)
}

// LayoutIsFree reports whether the layouts of the node's results may differ from the inferred layouts when it runs with
// the given walk. They may differ if the walk sets other layouts, if the op can write any layout, or if the node is
// pinned to a layout.
func (n *Node) LayoutIsFree(walk Walk) bool {
	if n == nil || n.Op == nil {
		return false
	}
	return n.Op.Kind == FollowsOperands || n.Op.Identity || n.Pin.SetsLayout() || !walk.HasInferredLayouts()
}

// checkLaidOut checks the implementation and the pin of a node. If layoutChanged is not nil, checkLaidOut checks only
// the operands for which layoutChanged returns true.
func (n *Node) checkLaidOut(layoutChanged func(v *Value) bool) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, value := range n.Out {
		if !n.Pin.Matches(value.Meta) {
			fail("value %q, %v, is pinned to %v", value.Name, value.Meta, n.Pin)
		}
	}
	if err := n.CheckPlaces(); err != nil {
		errs = append(errs, err)
	}
	if len(n.Op.Impls) == 0 || len(n.Out) == 0 || n.Out[0].Alias != nil {
		return errs
	}
	isChosen := func(impl Impl) bool { return n.Impl != nil && impl.Name == n.Impl.Name }
	if !n.Impl.OnDevice() && !slices.ContainsFunc(n.Op.Impls, isChosen) { // Op.Impls omits implementations on devices
		fail("no implementation is chosen")
		return errs
	}
	call := n.Call()
	errs = append(errs, n.checkOperandLayouts(call, layoutChanged)...)
	for i, value := range n.Out {
		var order tensor.Order
		if i < len(n.Walk.ResultOrders) {
			order = n.Walk.ResultOrders[i]
		}
		if err := n.checkWrites(call, i, order); err != nil {
			fail("implementation %s writes output %d %w, but %q is %v", n.Impl.Name, i, err, value.Name, value.Meta)
		}
	}
	return errs
}

// checkOperandLayouts returns an error for each operand whose layout or packed form the node's implementation cannot
// read. layoutChanged is the argument of checkLaidOut.
func (n *Node) checkOperandLayouts(call *Call, layoutChanged func(v *Value) bool) (errs []error) {
	read := n.Impl.definedRead // Impl.Read would also compute Call.Footprint, which is slow and not needed here
	if read == nil {
		read = n.Impl.Read
	}
	for i, arg := range n.In {
		if arg.Kind != TensorArg || layoutChanged != nil && !layoutChanged(arg.Value) {
			continue
		}
		if err := n.checkPacked(call, i); err != nil {
			errs = append(errs, err)
		}
		if arg.Meta().Numel() == 0 { // an operand without elements is not read
			continue
		}
		if _, ok := read(call, n.Walk, i, arg.Meta()); !ok {
			errs = append(errs, fmt.Errorf("implementation %s cannot read the layout of operand %d: %q is %v", n.Impl.Name, i,
				arg.Value.Name, arg.Meta()))
		}
	}
	return errs
}

// checkWrites returns an error if the node's implementation does not write the layout of result i. required is the
// order of the result in the walk. The text of the error names the layout that the implementation writes: "dense" or
// "in order ...".
func (n *Node) checkWrites(call *Call, i int, required tensor.Order) error {
	value := n.Out[i]
	if value.Meta.Numel() == 0 {
		return nil
	}
	hasGaps := value.ContainedIn != nil && !value.Meta.IsNonOverlappingAndDense()
	switch {
	case hasGaps && (n.Impl.Writes == nil || !n.Impl.Writes(call, n.Walk, i, call.Out[i])):
		return errors.New("dense")
	case required == "":
		return nil
	}
	meta := value.Meta
	if actual, _ := tensor.OrderOf(meta); hasGaps {
		meta = meta.WithStrides(actual.Strides(meta.Shape)) // the same order without gaps
	}
	if !required.Matches(meta) {
		return fmt.Errorf("in order %v", required)
	}
	return nil
}

// checkOutputs checks the values and the names of the graph's outputs. With LaidOut, it also checks their pins.
func (v *verifier) checkOutputs(props Props) {
	names := map[string]bool{}
	for _, output := range v.graph.Outputs {
		switch {
		case output.Value == nil:
			v.fail(nil, "output %q has no value", output.Name)
			continue
		case !v.visibleValues[output.Value]:
			v.fail(nil, "output %q: value %q is not of the graph", output.Name, output.Value.Name)
		case names[output.Name]:
			v.fail(nil, "two outputs are named %q", output.Name)
		case props&LaidOut != 0 && !output.Pin.Matches(output.Value.Meta):
			v.fail(nil, "output %q: %v is pinned to %v", output.Name, output.Value.Meta, output.Pin)
		}
		names[output.Name] = true
	}
}

// CheckProps returns an error if the node violates [Typed] or [LaidOut]: see [Verify].
func (n *Node) CheckProps() error {
	if n == nil || n.Op == nil || n.Op.Infer == nil {
		return errors.New("there is no node with an op")
	}
	return errors.Join(append([]error{n.checkTyped()}, n.checkLaidOut(nil)...)...)
}

// CheckLaidOut returns an error if the node violates [LaidOut]: see [Verify].
func (n *Node) CheckLaidOut() error {
	if n == nil || n.Op == nil {
		return errors.New("there is no node with an op")
	}
	return errors.Join(n.checkLaidOut(nil)...)
}

// RecheckProps checks a node as [Node.CheckProps] does, after the layouts of some operands have changed. The node must
// have satisfied CheckProps before. Operands for which layoutChanged returns false are not checked again.
func (n *Node) RecheckProps(layoutChanged func(v *Value) bool) error {
	if n == nil || n.Op == nil || n.Op.Infer == nil {
		return errors.New("there is no node with an op")
	}
	return errors.Join(append([]error{n.checkTyped()}, n.checkLaidOut(layoutChanged)...)...)
}

// Each returns the properties of p, as sets of one property.
func (p Props) Each() []Props {
	var list []Props
	for prop := Props(1); prop != 0; prop <<= 1 { // 0 after the last bit
		if p&prop != 0 {
			list = append(list, prop)
		}
	}
	return list
}

// String lists the properties.
func (p Props) String() string {
	text := ""
	for i, name := range []string{"sorted", "typed", "laid out"} {
		if p&(1<<i) == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += name
	}
	return text
}
