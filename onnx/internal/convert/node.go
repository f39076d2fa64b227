package convert

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Node is a node of the model during its conversion. Converters call its methods, which panic with a [failure] if the
// node has a mistake. [Node.convert] recovers the panic and returns the error. The importer builds one graph.Graph. The
// scope has the values of the node's graph by name. The frame has the settings for the nodes of this graph, such as the
// nesting depth.
type Node struct {
	In    []*Value // operands; nil for an omitted operand
	Opset int      // version of the operator set

	*importer
	scope        *scope
	frame        *frame
	proto        *pb.NodeProto
	attrs        map[string]*pb.AttributeProto
	widened      map[*Value]*Value // 16-bit values in float32; nil except under InFloat32
	unavailable  *Value            // the first operand whose node could not be converted; nil if there is none
	continuation *continuation     // the nodes of the model that follow this node
	// finalOutputs are the outputs of the outermost graph if the converter also converted the continuation. Otherwise
	// it is nil.
	finalOutputs []*Value
}

// Converter converts a node and returns its outputs. An output that is not supported is nil. The converter of If may
// set [Node.finalOutputs] instead.
type Converter func(n *Node) []*Value

// failure is the panic value that ends a converter.
type failure struct{ err error }

// Failf ends the converter with an error.
func (n *Node) Failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// convertNode converts one node and adds the outputs to the scope (bindOutputs). It returns [Node.finalOutputs]. If
// mistakes are skipped, a node with a mistake is recorded, and its outputs are unavailable. [Node.convert] calls the
// converter and recovers from a failure. convertNode calls Node.convert through convertCatchingMemory, which also
// recovers from a lack of memory if mistakes are skipped.
func (im *importer) convertNode(proto *pb.NodeProto, s *scope, f *frame, following *continuation) ([]*Value, error) {
	if im.nodeCount++; im.nodeCount > maxNodes {
		return nil, limitError{fmt.Errorf("the model has more than %d nodes", maxNodes)}
	}
	n := &Node{importer: im, scope: s, frame: f, proto: proto, attrs: map[string]*pb.AttributeProto{},
		continuation: following}
	domain := CanonicalDomain(proto.Domain)
	n.Opset = f.opsets[domain]
	out, err := n.convertCatchingMemory(domain)
	if err == nil && n.finalOutputs == nil {
		err = n.bindOutputs(out)
	}
	switch {
	case err == nil:
		return n.finalOutputs, nil
	case f.canSkip(err):
		n.skipNode(err, proto.Output)
		return nil, nil
	}
	n.failed.record(n, err)
	return nil, fmt.Errorf("%s: %w", n.title(), err)
}

// convert looks up the operands in the scope (readProto) and calls the converter of the node's operator.
func (n *Node) convert(domain string) (out []*Value, err error) {
	defer Recover(&err)
	if err := n.model.cycles[n.proto]; err != nil {
		return nil, err
	}
	if err := n.readProto(); err != nil {
		return nil, err
	}
	if f := n.model.function(n.proto, n.opts.Table); f != nil {
		return n.convertFunctionCall(f)
	}
	operator := Operator{domain, n.proto.OpType}
	convertOperator := n.opts.Table.Converters[operator]
	switch {
	case n.unavailable != nil && convertOperator != nil: // an error for every operand takes precedence
		return nil, cmp.Or(n.unavoidableError(convertOperator), error(&unavailableError{n.unavailable}))
	case n.unavailable != nil:
		return nil, &unavailableError{n.unavailable}
	case convertOperator == nil:
		return nil, ErrNoConverter
	case n.takesStrings():
		return n.convertStringNode(convertOperator, operator), nil
	}
	return convertOperator(n), nil
}

// readProto sets the fields In, attrs and unavailable. An optional without a value becomes an omitted operand, but not
// for OptionalHasElement.
func (n *Node) readProto() error {
	for _, name := range n.proto.Input {
		if name == "" {
			n.In = append(n.In, nil)
			continue
		}
		operand := n.scope.lookup(name)
		if operand == nil {
			return fmt.Errorf("operand %q is not defined before the node", name)
		}
		if operand.kind == unavailableKind && n.unavailable == nil {
			n.unavailable = operand
		}
		if operand.kind == emptyOptionalKind && n.proto.OpType != "OptionalHasElement" {
			operand = nil
		}
		n.In = append(n.In, operand)
	}
	for _, attribute := range n.proto.Attribute {
		if attribute.RefAttrName == "" {
			n.attrs[attribute.Name] = attribute
		} else if given := n.frame.attrs[attribute.RefAttrName]; given != nil { // else the function call omits it
			n.attrs[attribute.Name] = given
		}
	}
	return nil
}

// Recover turns a failure panic into an error.
func Recover(err *error) {
	defer sym.Catch(err)
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// convertFunctionCall converts the body of a function in place of the node. The attributes of the node replace the
// function's defaults. The nodes of the body can use only the function's inputs.
func (n *Node) convertFunctionCall(function *pb.FunctionProto) ([]*Value, error) {
	opsets, err := opsetsOf(function.OpsetImport)
	if err != nil {
		return nil, err
	}
	bodyFrame := &frame{opsets: opsets, attrs: map[string]*pb.AttributeProto{}, depth: n.frame.depth + 1,
		unrollBudget: n.frame.unrollBudget, continuation: n.continuation, skipsInvalidNodes: n.frame.skipsInvalidNodes}
	for _, attribute := range function.AttributeProto {
		bodyFrame.attrs[attribute.Name] = attribute
	}
	for name, attribute := range n.attrs {
		renamed := *attribute
		renamed.Name, renamed.RefAttrName = name, "" // a reference to an attribute of an outer function is resolved
		bodyFrame.attrs[name] = &renamed
	}
	bodyScope := &scope{importer: n.importer, values: map[string]*Value{}}
	for i, name := range function.Input {
		if i < len(n.In) && n.In[i] != nil {
			bodyScope.values[name] = n.In[i]
		} else { // nodes of the body that read this input have an omitted operand
			bodyScope.values[name] = &Value{kind: emptyOptionalKind}
		}
	}
	const firstNode = 0
	if n.finalOutputs, err = n.convertNodes(functionBody(function), firstNode, bodyScope, bodyFrame); err != nil {
		return nil, fmt.Errorf("function: %w", err)
	}
	out := make([]*Value, len(function.Output))
	for i, name := range function.Output {
		out[i] = bodyScope.values[name]
	}
	return out, nil
}

// functionBody returns a function as a graph.
func functionBody(f *pb.FunctionProto) *pb.GraphProto {
	body := &pb.GraphProto{Node: f.Node}
	for _, name := range f.Input {
		body.Input = append(body.Input, &pb.ValueInfoProto{Name: name})
	}
	for _, name := range f.Output {
		body.Output = append(body.Output, &pb.ValueInfoProto{Name: name})
	}
	return body
}

// title identifies the node in errors.
func (n *Node) title() string {
	return fmt.Sprintf("node %q (%s)", nameOf(n.proto), n.proto.OpType)
}

// nameOf returns the name of a node. A node without a name has the name of its first output.
func nameOf(p *pb.NodeProto) string {
	for _, output := range p.Output {
		if p.Name == "" && output != "" {
			return output
		}
	}
	return p.Name
}

// setName gives a value the name in the model, if the value has no such name yet. If several values of the model are
// one result of a graph node, the result gets the first name. Inputs and constants keep their names.
func (im *importer) setName(x *Value, name string) {
	if x.name == "" {
		x.name = name
	}
	if x.graphValue == nil || im.hasModelName[x.graphValue] || x.graphValue.Node == nil {
		return
	}
	im.hasModelName[x.graphValue] = true
	x.graphValue.Named(im.graph.UniqueName(name))
}

// Name returns the name of the node. A node without a name has the name of its first output.
func (n *Node) Name() string { return nameOf(n.proto) }

// Operator returns the operator of the node.
func (n *Node) Operator() Operator { return Operator{CanonicalDomain(n.proto.Domain), n.proto.OpType} }

// Outputs returns the number of outputs of the node.
func (n *Node) Outputs() int { return len(n.proto.Output) }

// NodeCount returns the number of nodes that were converted so far. The number is different for each node of the model.
func (n *Node) NodeCount() int { return n.nodeCount }

// Lookup returns an op of the catalogue, or nil.
func (n *Node) Lookup(op string) *graph.Op { return n.opts.Lookup(op) }

// Weight returns the tensor of a TensorProto.
func (n *Node) Weight(t *pb.TensorProto) (*tensor.Tensor, error) { return n.model.file.Tensor(t) }

// HasOperand reports whether operand i is present.
func (n *Node) HasOperand(i int) bool { return i >= 0 && i < len(n.In) && n.In[i] != nil }

// Operand returns operand i, which must be a tensor.
func (n *Node) Operand(i int) *Value {
	if !n.HasOperand(i) {
		n.Failf("operand %d is missing", i)
	}
	if n.In[i].kind != tensorKind {
		n.Failf("operand %d must be a tensor", i)
	}
	return n.In[i]
}

// OperandOrNil returns operand i, which must be a tensor, or nil if the operand is omitted.
func (n *Node) OperandOrNil(i int) *Value {
	if !n.HasOperand(i) {
		return nil
	}
	return n.Operand(i)
}

// IsOutputUsed reports whether output i is used.
func (n *Node) IsOutputUsed(i int) bool { return i < len(n.proto.Output) && n.proto.Output[i] != "" }

// Rank returns the rank of x, which must be known.
func (n *Node) Rank(x *Value) int {
	if !x.IsDynamic() {
		return len(x.Meta().Shape)
	}
	if x.outline.Sizes == nil {
		n.Failf("the number of dimensions of %q must be known before the graph runs, and it depends on data", x.name)
	}
	return len(x.outline.Sizes)
}

// Axis adds rank to a negative axis. It fails if the axis is out of range.
func (n *Node) Axis(axis, rank int) int {
	if axis < -rank || axis >= rank {
		n.Failf("axis %d is out of range: the operand has %d dimensions", axis, rank)
	}
	if axis < 0 {
		axis += rank
	}
	return axis
}

// Axes applies [Node.Axis] to each axis. It fails if an axis occurs twice.
func (n *Node) Axes(list []int, rank int) []int {
	out := make([]int, len(list))
	isListed := map[int]bool{}
	for i, axis := range list {
		out[i] = n.Axis(axis, rank)
		if isListed[out[i]] {
			n.Failf("axis %d occurs twice", axis)
		}
		isListed[out[i]] = true
	}
	return out
}

// AxisSet applies [Node.Axis] to each axis, and returns the axes in ascending order. An axis that occurs several times
// counts once, and a scalar has axis 0, as in the reductions of ONNX Runtime.
func (n *Node) AxisSet(list []int, rank int) []int {
	out := make([]int, len(list))
	for i, axis := range list {
		out[i] = n.Axis(axis, max(rank, 1))
	}
	sorted.Ints(out)
	return slices.Compact(out)
}

// value returns x, which must be a tensor or nil, as a value of the graph.
func (n *Node) value(x *Value) *graph.Value {
	if x == nil {
		return nil
	}
	if x.kind != tensorKind {
		n.Failf("want a tensor, got %v", x.kind)
	}
	return n.materialise(x)
}
