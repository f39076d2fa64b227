package onnx

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// node is a node of the model during its conversion. Converters call its methods, which panic with a [failure] if the
// node has a mistake. [node.convert] recovers the panic and returns the error.
type node struct {
	*importer
	scope             *scope
	frame             *frame
	proto             *pb.NodeProto
	opset             int    // version of the operator set
	in                []*val // operands; nil for an omitted operand
	attrs             map[string]*pb.AttributeProto
	unavailable       *val          // the first operand without a value: its node could not be converted; nil for none
	continuation      *continuation // the nodes of the model that follow this node
	converterReturned bool          // whether the [Converter] of the node has returned
	// finalOutputs are the outputs of the outermost graph, if the converter also converted the continuation, else nil.
	finalOutputs []*val
}

// converter converts a node and returns its outputs. It returns nil if it sets node.finalOutputs.
type converter func(n *node) []*val

// failure is the panic value that ends a converter.
type failure struct{ err error }

// failf ends the converter with an error.
func (n *node) failf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// convertNode converts one node and adds its outputs to the scope. It returns [node.finalOutputs].
func (im *importer) convertNode(p *pb.NodeProto, s *scope, f *frame, following *continuation) ([]*val, error) {
	if im.nodeCount++; im.nodeCount > maxNodes {
		return nil, limitError{fmt.Errorf("the model has more than %d nodes", maxNodes)}
	}
	n := &node{importer: im, scope: s, frame: f, proto: p, attrs: map[string]*pb.AttributeProto{}, continuation: following}
	domain := domainOf(p.Domain)
	n.opset = f.opsets[domain]
	out, err := n.convertCatchingMemory(domain)
	if err == nil && n.finalOutputs == nil {
		err = n.bindOutputs(out)
	}
	switch {
	case err == nil:
		return n.finalOutputs, nil
	case f.canSkip(err):
		n.skipNode(err, p.Output)
		return nil, nil
	}
	return nil, fmt.Errorf("%s: %w", n.title(), err)
}

// title identifies the node in errors.
func (n *node) title() string {
	return fmt.Sprintf("node %q (%s)", nameOf(n.proto), n.proto.OpType)
}

// nameOf returns the name of a node. A node without a name has the name of its first output.
func nameOf(p *pb.NodeProto) string {
	for _, o := range p.Output {
		if p.Name == "" && o != "" {
			return o
		}
	}
	return p.Name
}

// setName gives a value the name that the model uses, if the value has no name yet.
func (im *importer) setName(x *val, name string) {
	if x.name == "" {
		x.name = name
	}
	if x.graphValue == nil || im.hasModelName[x.graphValue] || x.graphValue.Node == nil {
		return
	}
	im.hasModelName[x.graphValue] = true
	x.graphValue.Named(im.graph.Fresh(name))
}

// operands sets the fields in, attrs and unavailable.
func (n *node) operands() error {
	for _, name := range n.proto.Input {
		var operand *val
		if name != "" {
			if operand = n.scope.lookup(name); operand == nil {
				return fmt.Errorf("operand %q is not defined before the node", name)
			}
			if operand.kind == unavailableKind && n.unavailable == nil {
				n.unavailable = operand
			}
			if operand.kind == emptyOptionalKind && n.proto.OpType != "OptionalHasElement" {
				operand = nil
			}
		}
		n.in = append(n.in, operand)
	}
	for _, attribute := range n.proto.Attribute {
		if attribute.RefAttrName != "" {
			if attribute = n.frame.attrs[attribute.RefAttrName]; attribute == nil {
				continue // the function call omits the attribute
			}
			n.attrs[attrName(n.proto, attribute)] = attribute
			continue
		}
		n.attrs[attribute.Name] = attribute
	}
	return nil
}

// attrName returns the name that node p gives to attribute a of the enclosing function.
func attrName(p *pb.NodeProto, a *pb.AttributeProto) string {
	for _, b := range p.Attribute {
		if b.RefAttrName == a.Name {
			return b.Name
		}
	}
	return a.Name
}

// convert calls the converter of the node's operator.
func (n *node) convert(domain string) (out []*val, err error) {
	defer recoverFailure(&err)
	if err := n.operands(); err != nil {
		return nil, err
	}
	if f := n.model.function(n.proto, n.opts); f != nil {
		return n.call(f)
	}
	if n.unavailable != nil {
		return nil, &unavailableError{n.unavailable}
	}
	convertOperator := n.opts.table[operator{domain, n.proto.OpType}]
	if convertOperator == nil {
		return nil, ErrNoConverter
	}
	if n.hasTexts() {
		return n.convertTexts(convertOperator, operator{domain, n.proto.OpType}), nil
	}
	return convertOperator(n), nil
}

// recoverFailure turns a failure panic into an error.
func recoverFailure(err *error) {
	defer sym.Catch(err)
	switch r := recover().(type) {
	case nil:
	case failure:
		*err = r.err
	default:
		panic(r)
	}
}

// call converts the body of a function in place of the node.
func (n *node) call(f *pb.FunctionProto) ([]*val, error) {
	sets, err := opsetsOf(f.OpsetImport)
	if err != nil {
		return nil, err
	}
	inner := &frame{opsets: sets, attrs: map[string]*pb.AttributeProto{}, depth: n.frame.depth + 1,
		unrollBudget: n.frame.unrollBudget, continuation: n.continuation, skipErrors: n.frame.skipErrors}
	for _, attribute := range f.AttributeProto {
		inner.attrs[attribute.Name] = attribute
	}
	for name, attribute := range n.attrs {
		inner.attrs[name] = &pb.AttributeProto{Name: name, Type: attribute.Type, F: attribute.F,
			I: attribute.I, S: attribute.S, T: attribute.T, G: attribute.G,
			Floats: attribute.Floats, Ints: attribute.Ints, Strings: attribute.Strings, Graphs: attribute.Graphs}
	}
	bodyScope := &scope{importer: n.importer, values: map[string]*val{}}
	for i, name := range f.Input {
		if i < len(n.in) && n.in[i] != nil {
			bodyScope.values[name] = n.in[i]
		} else {
			bodyScope.values[name] = &val{kind: emptyOptionalKind}
		}
	}
	body := &pb.GraphProto{Node: f.Node}
	for _, o := range f.Output {
		body.Output = append(body.Output, &pb.ValueInfoProto{Name: o})
	}
	if n.finalOutputs, err = n.convertNodes(body, 0, bodyScope, inner); err != nil {
		return nil, fmt.Errorf("function: %w", err)
	}
	out := make([]*val, len(f.Output))
	for i, name := range f.Output {
		out[i] = bodyScope.values[name]
	}
	return out, nil
}

// hasOperand reports whether operand i is present.
func (n *node) hasOperand(i int) bool { return i >= 0 && i < len(n.in) && n.in[i] != nil }

// operand returns operand i, which must be a tensor.
func (n *node) operand(i int) *val {
	if !n.hasOperand(i) {
		n.failf("operand %d is missing", i)
	}
	if n.in[i].kind != tensorKind {
		n.failf("operand %d must be a tensor", i)
	}
	return n.in[i]
}

// operandOrNil returns operand i, which must be a tensor, or nil if the operand is omitted.
func (n *node) operandOrNil(i int) *val {
	if !n.hasOperand(i) {
		return nil
	}
	return n.operand(i)
}

// isOutputUsed reports whether output i is used.
func (n *node) isOutputUsed(i int) bool { return i < len(n.proto.Output) && n.proto.Output[i] != "" }

// rank returns the rank of x, which must be known.
func (n *node) rank(x *val) int {
	if !x.isDynamic() {
		return len(x.meta().Shape)
	}
	if x.outline.Sizes == nil {
		n.failf("the number of dimensions of %q must be known before the graph runs, and it depends on data", x.name)
	}
	return len(x.outline.Sizes)
}

// axis adds rank to a negative dimension. It fails if the dimension is out of range.
func (n *node) axis(d, rank int) int {
	if d < -rank || d >= max(rank, 1) {
		n.failf("axis %d is out of range: the operand has %d dimensions", d, rank)
	}
	if d < 0 {
		d += rank
	}
	return d
}

// axes applies [node.axis] to each dimension. It fails if a dimension occurs twice.
func (n *node) axes(list []int, rank int) []int {
	out := make([]int, len(list))
	seen := map[int]bool{}
	for i, d := range list {
		out[i] = n.axis(d, rank)
		if seen[out[i]] {
			n.failf("axis %d occurs twice", d)
		}
		seen[out[i]] = true
	}
	return out
}

// attr returns an attribute, which must have type t, or nil if the attribute is omitted.
func (n *node) attr(name string, t pb.AttributeType) *pb.AttributeProto {
	a := n.attrs[name]
	if a != nil && a.Type != t && a.Type != pb.AttributeUndefined {
		n.failf("attribute %q is of type %s, want %s", name, strings.ToLower(a.Type.String()), strings.ToLower(t.String()))
	}
	return a
}

// int returns an attribute, or def if the attribute is omitted. flag, float and text are similar.
//
//go:noinline
func (n *node) int(name string, def int) int {
	if a := n.attr(name, pb.AttributeInt); a != nil {
		return int(a.I)
	}
	return def
}

//go:noinline
func (n *node) flag(name string, def bool) bool {
	if a := n.attr(name, pb.AttributeInt); a != nil {
		return a.I != 0
	}
	return def
}

func (n *node) float(name string, def float64) float64 {
	if a := n.attr(name, pb.AttributeFloat); a != nil {
		return shortestDecimal(a.F)
	}
	return def
}

//go:noinline
func (n *node) text(name, def string) string {
	if a := n.attr(name, pb.AttributeString); a != nil {
		return string(a.S)
	}
	return def
}

// ints returns a list attribute. ok is false if the attribute is omitted.
func (n *node) ints(name string) ([]int, bool) {
	attribute := n.attr(name, pb.AttributeInts)
	if attribute == nil {
		return nil, false
	}
	out := make([]int, len(attribute.Ints))
	for i, x := range attribute.Ints {
		out[i] = int(x)
	}
	return out, true
}

func (n *node) floats(name string) ([]float64, bool) {
	attribute := n.attr(name, pb.AttributeFloats)
	if attribute == nil {
		return nil, false
	}
	out := make([]float64, len(attribute.Floats))
	for i, x := range attribute.Floats {
		out[i] = shortestDecimal(x)
	}
	return out, true
}

// dtypeAttr returns a dtype attribute. It returns Invalid if the attribute is omitted or 0.
func (n *node) dtypeAttr(name string) tensor.DType {
	a := n.attr(name, pb.AttributeInt)
	if a == nil || a.I == 0 {
		return tensor.Invalid
	}
	dtype, err := dtypeOf(int32(a.I))
	if err != nil {
		n.failf("attribute %q: %v", name, err)
	}
	return dtype
}

// value returns x, which must be a tensor or nil, as a value of the graph.
func (n *node) value(x *val) *graph.Value {
	if x == nil {
		return nil
	}
	if x.kind != tensorKind {
		n.failf("want a tensor, got %v", x.kind)
	}
	return n.materialise(x)
}
