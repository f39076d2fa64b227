package fusion

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/tensor"
)

// Fuser replaces each of several groups of nodes of a graph by one node. It caches the expressions of nodes, so the
// nodes must not change while it is used. It is not safe for concurrent use. A pass finds groups by [Fuser.Expression],
// [Fuser.Rows], [Fuser.CheckAnchor] and [Fuser.CheckAttention], and then calls [Fuser.Fuse].
//
// A row program is an expression that folds (reduces) rows, such as a softmax. An epilogue is an expression that the
// kernel of a product or a convolution, the anchor, applies to the elements of its result.
type Fuser struct {
	// Device means that a device may compute the fused nodes. Row programs ([Fuser.Rows]) and epilogues are then accepted
	// even if loops are not compiled to machine code for the host.
	Device bool

	graph      *graph.Graph
	codes      graph.ByValue[*expr.Code]  // expressions of nodes, indexed by the first output of the node
	rows       graph.ByValue[*graph.Rows] // row programs of nodes, indexed by the first output of the node
	lastMissed *graph.Node                // the last node whose expression was not in codes; the next node may be alike
	missedCode *expr.Code                 // expression of lastMissed
	missedErr  error                      // reason why lastMissed has no expression, or nil
}

// NewFuser returns a Fuser for the nodes of a graph whose types are inferred.
func NewFuser(g *graph.Graph) *Fuser {
	return &Fuser{graph: g, codes: graph.NewByValue[*expr.Code](g), rows: graph.NewByValue[*graph.Rows](g)}
}

// Group is a group of nodes that become one node.
type Group struct {
	// Nodes are at least two nodes in topological order. Each has an expression ([Fuser.Expression]) or, if Mask is
	// set, a row program ([Fuser.Rows]).
	Nodes []*graph.Node
	// Anchor means that the first node is an anchor, and the other nodes are its epilogue: see [Fuser.CheckAnchor]. Mask
	// is then nil.
	Anchor bool
	// Attention means that the nodes are an attention: see [Fuser.CheckAttention]. Mask is then ignored.
	Attention bool
	// Mask marks the dimensions that nodes fold. Its indices are dimensions of the shape to which all operands of the
	// group are broadcast. Mask is nil if no node folds.
	Mask []bool
	// Split is the number of groups into which the row program splits the channels (dimension 1), as group_norm does
	// ([graph.Rows.ChannelGroups]). If Split is 0, channels are not split. Otherwise Mask has two entries for the
	// channels: the groups, then the channels of a group.
	Split int
}

// Fuse replaces each group by one node at the position of the group's last node, and returns the new nodes in the order
// of the groups. No node may be in two groups. A node that computes an operand of a group must precede the group's last
// node. A node outside the group that reads a result of the group must follow the group's last node. The function keep
// reports whether a value of a group remains a result. All other values of the group are removed. If Fuse fails, the
// error names the last node of a group, and the graph is unchanged.
func (f *Fuser) Fuse(groups []Group, keep func(*graph.Value) bool) ([]*graph.Node, error) {
	if f == nil || f.graph == nil || keep == nil {
		return nil, errors.New("Fuse needs a Fuser made by NewFuser, and a keep function")
	}
	if len(groups) == 0 {
		return nil, nil
	}
	g := f.graph
	replaced, fused := make([][]*graph.Node, len(groups)), make([]*graph.Node, len(groups))
	for i, group := range groups {
		if err := g.ContextErr(); err != nil {
			return nil, err
		}
		node, err := f.fusedNode(group, keep)
		if err != nil {
			if last := len(group.Nodes) - 1; last >= 0 && group.Nodes[last] != nil {
				err = g.NodeError(group.Nodes[last], err)
			}
			return nil, err
		}
		replaced[i], fused[i] = group.Nodes, node
	}
	if err := g.Merge(replaced, fused); err != nil {
		return nil, err
	}
	return fused, nil
}

// fusedNode returns the fused node of a group. It does not add the node to the graph.
func (f *Fuser) fusedNode(group Group, keep func(*graph.Value) bool) (*graph.Node, error) {
	parts := group.Nodes
	if len(parts) < 2 {
		return nil, errors.New("a group has at least two nodes")
	}
	for i, member := range parts {
		if member == nil || member.Op == nil || len(member.Out) == 0 || !f.graph.Owns(member.Out[0]) {
			return nil, fmt.Errorf("part %d is not a node of the graph", i)
		}
	}
	builder := &nodeBuilder{
		fusion: &Fusion{Parts: make([]FusedPart, 0, len(parts)), Mask: slices.Clone(group.Mask), Split: group.Split},
		node:   &graph.Node{Op: Fused}, producers: make(map[*graph.Value]FusedArg, len(parts)),
		operandIndex: map[operandKey]int{}}
	if err := builder.addParts(f, group, keep); err != nil {
		return nil, err
	}
	fused, last := builder.node, parts[len(parts)-1]
	// The loop reads all operands except the operands of the anchor. If there is an anchor, it also reads the anchor's
	// result.
	loopArrays := len(fused.In) - builder.fusion.AnchorOperands + len(fused.Out)
	if hasAnchor := builder.fusion.AnchorOperands > 0; hasAnchor {
		loopArrays++
	}
	switch {
	case len(fused.Out) == 0:
		return nil, errors.New("no result of the parts is needed")
	case len(fused.In) == 0 || loopArrays > expr.MaxOperands:
		return nil, fmt.Errorf("one loop cannot have %d operands and %d results", len(fused.In), len(fused.Out))
	}
	fused.Attrs, fused.Name = builder.fusion, last.Name
	fused.PartOf = last.PartOf // if a node of the user was decomposed into several nodes, errors name that node
	return fused, builder.inline(f, parts)
}

// nodeBuilder builds a fused node from its parts. In its methods, the parameter member is a node of the group that
// becomes a part. A FusedPart describes the part. A FusedArg is an operand of a part: output Index of part Part or, if
// Part is negative, operand Index of the fused node. The parameter keep reports whether a value of the group remains a
// result.
type nodeBuilder struct {
	fusion       *Fusion
	node         *graph.Node
	producers    map[*graph.Value]FusedArg // for a value that a part computes: the part and the index of its output
	operandIndex map[operandKey]int        // for an operand of parts: its index in node.In
}

// operandKey identifies an operand of the fused node: a value, and whether it is a vector along dimension 1. The same
// value may be a vector along dimension 1 for one part and an ordinary operand of another part.
type operandKey struct {
	*graph.Value
	isChannelVector bool
}

// addParts adds all nodes of a group as parts.
func (builder *nodeBuilder) addParts(fuser *Fuser, group Group, keep func(*graph.Value) bool) error {
	if group.Attention {
		return builder.addAttention(fuser, group.Nodes, keep)
	}
	for i, member := range group.Nodes {
		var err error
		if i == 0 && group.Anchor {
			err = builder.addAnchor(member, keep)
		} else {
			err = builder.addPart(i, member, fuser.channelVectorTest(member, group), keep)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addAnchor adds the first part, an anchor.
func (builder *nodeBuilder) addAnchor(member *graph.Node, keep func(*graph.Value) bool) error {
	op := withEpilogue(member.Op)
	if op == nil {
		return fmt.Errorf("%q %w", member.Name, errNoEpilogue)
	}
	part := FusedPart{Name: member.Name, Op: member.Op, Attrs: member.Attrs, In: make([]FusedArg, len(member.In)),
		ResultCount: len(member.Out)}
	for k, arg := range member.In {
		part.In[k] = FusedArg{Part: -1, Index: k} // operand k of the fused node
		if arg.Kind == graph.Null {
			part.In[k].Index = -1 // absent
		}
	}
	builder.node.Op, builder.node.In, builder.node.Pin = op, slices.Clone(member.In), member.Pin
	builder.fusion.AnchorOperands, builder.fusion.Channels = len(member.In), make([]bool, len(member.In))
	builder.recordOutputs(0, member, keep)
	builder.fusion.Parts = append(builder.fusion.Parts, part)
	return nil
}

// addPart adds member as part i. isChannelVector reports whether operand k of member is a vector along dimension 1.
func (builder *nodeBuilder) addPart(i int, member *graph.Node, isChannelVector func(k int) bool,
	keep func(*graph.Value) bool) error {
	part := FusedPart{Name: member.Name, Op: member.Op, Attrs: member.Attrs, In: make([]FusedArg, 0, len(member.In)),
		ResultCount: len(member.Out)}
	for k, arg := range member.In {
		switch producer, isInner := builder.producers[arg.Value]; {
		case arg.Kind == graph.NumberArg:
			part.In = append(part.In, FusedArg{Number: arg.Number})
		case arg.Kind == graph.Null:
			return fmt.Errorf("operand %d of %q is absent", k, member.Name)
		case isInner && isChannelVector(k):
			return fmt.Errorf("operand %d of %q is a vector along dimension 1 that another part computes", k, member.Name)
		case isInner:
			part.In = append(part.In, producer)
		default:
			key := operandKey{arg.Value, isChannelVector(k)}
			index, known := builder.operandIndex[key]
			if !known {
				index = len(builder.node.In)
				builder.operandIndex[key] = index
				builder.node.In = append(builder.node.In, arg)
				builder.fusion.Channels = append(builder.fusion.Channels, key.isChannelVector)
			}
			part.In = append(part.In, FusedArg{Part: -1, Index: index})
		}
	}
	builder.recordOutputs(i, member, keep)
	builder.fusion.Parts = append(builder.fusion.Parts, part)
	return nil
}

// recordOutputs records the outputs of member, which is part i.
func (builder *nodeBuilder) recordOutputs(i int, member *graph.Node, keep func(*graph.Value) bool) {
	for k, v := range member.Out {
		builder.producers[v] = FusedArg{Part: i, Index: k}
		if keep(v) {
			builder.fusion.Results = append(builder.fusion.Results, [2]int{i, k})
			builder.node.Out = append(builder.node.Out, v)
		}
	}
}

// channelVectorTest returns a function that reports whether operand k of member is a vector along dimension 1, such as
// a bias.
func (f *Fuser) channelVectorTest(member *graph.Node, group Group) func(k int) bool {
	var rows *graph.Rows
	if group.Mask != nil && member.Op.Expression == nil {
		rows = f.Rows(member)
	}
	return func(k int) bool { return rows != nil && rows.IsAlongChannels(slices.Index(rows.In, k)) }
}

// inline sets the expressions of the parts, and inlines them into one.
func (builder *nodeBuilder) inline(fuser *Fuser, parts []*graph.Node) error {
	fused := builder.fusion
	for i, member := range parts {
		part := &fused.Parts[i]
		for _, v := range member.Out {
			part.results = append(part.results, v.Type)
		}
		part.sizes = len(graph.SizesInAttrs(part.Attrs))
		if fused.isReadAs(i) {
			continue
		}
		if err := part.setCode(member, fused.Mask != nil, fuser.Rows, fuser.Expression); err != nil {
			return fmt.Errorf("%q: %w", member.Name, err)
		}
	}
	return fused.inline(builder.node.In)
}

// isReadAs reports whether part i is not part of the expression, because its value is the value of another part, or of
// operand 0: the anchor, and the views and the last product of an attention.
func (f *Fusion) isReadAs(i int) bool {
	isAnchor := i == 0 && f.AnchorOperands > 0
	return isAnchor || f.isAttention() && (i == len(f.Parts)-1 || f.Parts[i].reshapes)
}

// setCode sets the expression of a part. n is the node that it replaces. hasMask means that parts may be row programs.
func (part *FusedPart) setCode(n *graph.Node, hasMask bool, rowsOf func(*graph.Node) *graph.Rows,
	expressionOf func(*graph.Node) (*expr.Code, error)) (err error) {
	if hasMask && n.Op.Expression == nil {
		rows := rowsOf(n)
		if rows == nil {
			return errNoExpression
		}
		part.code, part.rows, part.folded = rows.Code, rows, foldedSizes(rows, n.In[0].Meta().Shape)
		return nil
	}
	part.code, err = expressionOf(n)
	return err
}

// foldedSizes returns the sizes on which the expression of a row program depends: see [graph.Op.Rows].
func foldedSizes(rows *graph.Rows, shape []int) []int {
	if rows.ChannelGroups != 0 {
		return shape
	}
	sizes := []int{}
	for dim, isFolded := range rows.Mask {
		if isFolded {
			sizes = append(sizes, shape[dim])
		}
	}
	return sizes
}

// inline inlines the expressions of the parts into one. For example, the parts t = exp(x) and y = t * 2 have the
// expression y0 = exp(x0) * 2. in has the operands of the fused node.
func (f *Fusion) inline(in []graph.Arg) error {
	var dtypes []tensor.DType // of the operands of the expression
	shift := 0
	if f.AnchorOperands > 0 { // operand 0 is the anchor's result, and operand 1 is operand AnchorOperands of the node
		dtypes, shift = append(dtypes, f.Parts[0].results[0].DType), 1-f.AnchorOperands
	}
	for _, arg := range in[f.AnchorOperands:] {
		dtypes = append(dtypes, arg.Type().DType)
	}
	whole := &fusedExpression{Builder: expr.NewBuilder(dtypes...), shift: shift,
		outputs: make([][]expr.Output, len(f.Parts))}
	for i := range f.Parts {
		whole.outputs[i] = f.partOutputs(whole, i)
	}
	results := make([]expr.Output, len(f.Results))
	for i, result := range f.Results {
		part, output := result[0], result[1]
		results[i] = whole.outputs[part][output]
	}
	code, err := whole.Build(results...)
	f.code = code
	// The anchor's kernel writes its result to the memory of a result of the fused node, the carrier, where the loop of
	// the epilogue reads it. The carrier must have elements of the same size as the anchor's result.
	if err == nil && f.AnchorOperands > 0 && f.carrierResult() < 0 {
		err = errNoRoom
	}
	f.effort = sync.OnceValue(func() OpCounts { return EffortOf(code) })
	return err
}

// fusedExpression builds the expression of a fused node.
type fusedExpression struct {
	*expr.Builder
	shift   int             // operand i of the node is operand i+shift of the expression
	outputs [][]expr.Output // by part and output: the values of the parts so far
}

// partOutputs returns the outputs of part i as values of the expression of the whole node.
func (f *Fusion) partOutputs(whole *fusedExpression, i int) []expr.Output {
	part := &f.Parts[i]
	switch {
	case i == 0 && f.AnchorOperands > 0: // the anchor
		return []expr.Output{whole.Real(whole.Load(0))} // its result is operand 0
	case f.isReadAs(i):
		// Views and the last product of an attention are not part of the expression: their value is the value of their
		// first operand, a result of an earlier part.
		return whole.outputs[part.In[0].Part]
	}
	return whole.Inline(part.code, func(operand, component int) expr.Value {
		index := operand
		if part.rows != nil {
			index = part.rows.In[operand]
		}
		return whole.operandOfPart(part.In[index], part.code.In[operand], component)
	})
}

// operandOfPart returns the value of an operand of a part. dtype is the dtype of a number. A complex value has two
// components: 0 is real, 1 imaginary.
func (e *fusedExpression) operandOfPart(arg FusedArg, dtype tensor.DType, component int) expr.Value {
	switch {
	case arg.Number.IsSet(): // ops such as where and masked_fill take a number as an element
		return e.Number(dtype, arg.Number, component)
	case arg.Part >= 0 && component == 0:
		return e.outputs[arg.Part][arg.Index].Re
	case arg.Part >= 0:
		return e.outputs[arg.Part][arg.Index].Im
	case component == 0:
		return e.Load(arg.Index + e.shift)
	}
	return e.LoadImag(arg.Index + e.shift)
}

// Expression returns the expression of one element of a node's results. Its operands and results have the dtypes of the
// values in memory. The operands of the expression are the operands of the node. If there is no expression, the error
// is the reason.
func (f *Fuser) Expression(n *graph.Node) (*expr.Code, error) {
	switch {
	case f == nil || n == nil || n.Op == nil || n.Op.Expression == nil || len(n.Out) == 0:
		return nil, errNoExpression
	case f.codes.At(n.Out[0]) != nil:
		return f.codes.At(n.Out[0]), nil
	}
	if !n.InfersLike(f.lastMissed) { // consecutive nodes that are alike share one expression
		f.missedCode, f.missedErr = expressionOf(n)
	}
	f.lastMissed = n
	if f.missedErr == nil {
		f.codes.Set(n.Out[0], f.missedCode)
	}
	return f.missedCode, f.missedErr
}

// errNoExpression is the error of nodes whose op has no expression.
var errNoExpression = errors.New("has no expression")

// expressionOf computes the result of [Fuser.Expression] without the cache.
func expressionOf(n *graph.Node) (*expr.Code, error) {
	for _, arg := range n.In {
		if arg.Kind == graph.Null {
			return nil, errors.New("lacks an optional operand")
		}
	}
	for _, v := range n.Out {
		if v.Alias != nil {
			return nil, errView
		}
	}
	code, err := n.Op.Expression(n.Call())
	if err == nil && code == nil {
		err = errNoExpression
	}
	return code, err
}

// Rows returns the computation of a node as an expression over rows, a row program. It returns nil if the node has no
// row program. Without a device, it also returns nil if loops are not compiled to machine code, because an interpreted
// row program is slower than the node's own kernel.
func (f *Fuser) Rows(n *graph.Node) *graph.Rows {
	if f == nil || n == nil || n.Op == nil || n.Op.Rows == nil || len(n.Out) == 0 {
		return nil
	}
	if !f.Device && !loops.CodeAvailable() {
		return nil
	}
	rows := f.rows.At(n.Out[0])
	if rows == nil {
		if rows = rowsOf(n); rows != nil {
			f.rows.Set(n.Out[0], rows)
		}
	}
	return rows
}

// rowsOf computes the result of [Fuser.Rows] without the cache.
func rowsOf(n *graph.Node) *graph.Rows {
	call := n.Call()
	rows, err := n.Op.Rows(call)
	if err != nil || rows == nil || len(rows.Mask) != rows.Rank(call.Meta(0).Rank()) { // invalid Mask
		return nil
	}
	for i, arg := range call.In {
		if arg.Kind == graph.TensorArg && !slices.Contains(rows.In, i) {
			return nil // the call has an operand that the expression does not read
		}
	}
	return rows
}
