package graphfile

import (
	"fmt"
	"strconv"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// Nodes are read in two steps. readNode reads a node and adds it to the draft of the graph, with its results. After the
// whole file was read, completeNode adds the op, the operands and the attributes. For example, if x is declared before
// this node and w after it,
//
//	{"name": "y", "op": "matmul", "inputs": ["x", "w"]}
//
// then readNode adds y with the operand x and an empty operand, and records {"w", 1} in loader.pending. completeNode
// finds w.

// rawNode is a node as read. Operands that are declared later in the file are in loader.pending.
type rawNode struct {
	node         *graph.Node // nil if it has no name
	opName       string
	operands     []graph.Arg
	attrs        []byte // the JSON of the attributes; a slice of the file
	attrsOffset  int    // offset of attrs in the file
	pendingEnd   int    // end of the node's operands in loader.pending; they start at pendingEnd of the previous node
	hasMistake   bool   // a mistake was reported; further mistakes are not reported, because they may follow from it
	hasTakenName bool   // the name of a result is also the name of another value
}

// pendingArg is an operand of a node whose value was not declared yet when the node was read.
type pendingArg struct {
	name          string
	index, offset int // index among the node's operands, and offset of the name in the file
}

// readNode reads one node.
func (l *loader) readNode(offset int) error {
	var raw rawNode
	var declared declaredNode
	interrupt.Check(l.ctx)
	firstErrIndex := len(l.errs) // index of the node's first mistake
	err := l.scan.object(func(key string, keyOffset int) error {
		return l.readNodeKey(&raw, &declared, key, keyOffset)
	})
	raw.pendingEnd, raw.opName = len(l.pending), declared.op
	if declared.hasOutputs && len(declared.outputs) == 0 && len(l.errs) == firstErrIndex {
		l.failAt(offset, "\"outputs\" is empty")
	}
	l.checkLayout(declared.pin, offset)
	raw.node, raw.hasTakenName = l.declareNode(&declared, offset, firstErrIndex)
	raw.hasMistake = len(l.errs) > firstErrIndex
	l.rawNodes = append(l.rawNodes, raw)
	for _, mistake := range l.errs[firstErrIndex:] {
		mistake.Node, mistake.Op = declared.name, declared.op
	}
	isPositionLost := err != nil
	l.skipNode(&raw, firstErrIndex, isPositionLost)
	return err
}

// declaredNode holds the name, op, outputs and layout of a node, as the JSON of the node gives them.
type declaredNode struct {
	name, op   string
	outputs    []string
	hasOutputs bool
	pin        graph.Pin
}

// readNodeKey reads the value of a key of a node.
func (l *loader) readNodeKey(raw *rawNode, declared *declaredNode, key string, offset int) error {
	switch key {
	case "name":
		return l.scan.stringTo(&declared.name)
	case "op":
		op, err := l.readOpName()
		declared.op = op
		return err
	case "inputs":
		return l.readOperands(raw)
	case "attrs":
		if ok, err := l.nextIsObject(); !ok {
			return err
		}
		raw.attrsOffset = l.scan.offset()
		attrs, err := l.scan.raw()
		raw.attrs = attrs
		return err
	case "outputs":
		declared.hasOutputs = true
		return l.scan.array(func(int) error {
			var output string
			err := l.scan.stringTo(&output)
			declared.outputs = append(declared.outputs, output)
			return err
		})
	case "memory_format":
		return l.scan.formatTo(&declared.pin.Format)
	case "order":
		return l.scan.orderTo(&declared.pin.Order)
	case "impl":
		return l.scan.stringTo(&declared.pin.Impl)
	case "device":
		return l.scan.stringTo(&declared.pin.Device)
	}
	return l.unknownKey(key, offset, "name, op, inputs, attrs, outputs, memory_format, order, impl, device")
}

// readOpName reads the name of an op. All nodes with the same op share the allocated string.
func (l *loader) readOpName() (string, error) {
	if ok, err := l.scan.expect('"', "a string"); !ok {
		return "", err
	}
	return l.scan.key()
}

// nextIsObject reports whether the next value is an object. If the value is null, nextIsObject skips it.
func (l *loader) nextIsObject() (bool, error) {
	if l.scan.dec.PeekKind() == 'n' {
		return false, l.scan.skip()
	}
	return l.scan.expect('{', "an object")
}

// readOperands reads the list of a node's inputs.
func (l *loader) readOperands(raw *rawNode) error {
	l.operandBuffer = l.operandBuffer[:0]
	err := l.scan.array(func(offset int) error {
		arg, err := l.readOperand(offset)
		l.operandBuffer = append(l.operandBuffer, arg)
		return err
	})
	count := len(l.operandBuffer)
	if len(l.unusedArgs) < count {
		l.unusedArgs = make([]graph.Arg, max(count, argBlock))
	}
	raw.operands, l.unusedArgs = l.unusedArgs[:count:count], l.unusedArgs[count:]
	copy(raw.operands, l.operandBuffer)
	return err
}

// argBlock is the number of operands in one allocation.
const argBlock = 512

// readOperand reads an operand of a node: the name of a value, a number or null. If the file declares the value later,
// readOperand adds the operand to l.pending.
func (l *loader) readOperand(offset int) (graph.Arg, error) {
	if l.scan.nextIsString() {
		name, err := l.scan.stringContents()
		if named := l.graph.Value(string(name)); named != nil {
			return graph.Arg{Kind: graph.TensorArg, Value: named}, err
		}
		l.pending = append(l.pending, pendingArg{name: string(name), index: len(l.operandBuffer), offset: offset})
		return graph.Arg{Kind: graph.TensorArg}, err
	}
	switch l.scan.dec.PeekKind() {
	case '[', '{':
		content, err := l.scan.value()
		if number, ok := numberObject(content); ok {
			return graph.Arg{Kind: graph.NumberArg, Number: number}, err
		}
		if err == nil {
			l.failAt(offset, "an input must be a value's name, a number or null")
		}
		return graph.Arg{}, err
	}
	content, err := l.scan.value()
	if number, ok := tensor.ScalarOf(content); ok {
		return graph.Arg{Kind: graph.NumberArg, Number: number}, err
	}
	return graph.Arg{}, err
}

// numberObject reads an operand of the form {"number": ...}. This form is for numbers that JSON cannot express: "NaN",
// "Infinity", "-Infinity", or a complex number as a pair.
func numberObject(content any) (tensor.Scalar, bool) {
	object, ok := content.(map[string]any)
	if !ok || len(object) != 1 {
		return tensor.Scalar{}, false
	}
	return numerals.Scalar(object["number"])
}

// declareNode registers the node and its outputs by name. The node's mistakes are l.errs[firstErrIndex:]. nameRejected
// reports whether the draft rejected a name, for example because another value has the name.
func (l *loader) declareNode(declared *declaredNode, offset, firstErrIndex int) (n *graph.Node, nameRejected bool) {
	if declared.name == "" && len(l.errs) > firstErrIndex {
		return nil, false
	}
	n, errs := l.draft.Node(declared.name, declared.outputs)
	if n != nil {
		n.Pin = declared.pin
		l.places.nodes = append(l.places.nodes, offset) // at index n.Number()
		if declared.op == "" && len(l.errs) == firstErrIndex {
			l.failAt(offset, "\"op\" is missing")
		}
	}
	for _, err := range errs {
		l.failAt(offset, "%w", err)
	}
	return n, errs != nil
}

// skipNode lets ParseSome continue after the mistakes of a node, l.errs[firstErrIndex:]. Inference will return the
// first of these mistakes as the node's error. skipNode does nothing if the position in the file is lost, or if another
// value already has the name of a result.
func (l *loader) skipNode(raw *rawNode, firstErrIndex int, isPositionLost bool) {
	if !l.skipsMistakes() || isPositionLost || raw.node == nil || raw.hasTakenName || len(l.errs) == firstErrIndex {
		return
	}
	l.draft.Reject(raw.node, l.errs[firstErrIndex].Err)
	op, _ := l.draft.Op(raw.opName)
	l.draft.Complete(raw.node, op, raw.operands, nil)
	l.errs = l.errs[:firstErrIndex]
}

// skipsMistakes reports whether the file is read by ParseSome, which continues past mistakes. ParseSome stores mistakes
// in three places. The draft has the mistakes in nodes ([graph.Draft.Reject]), l.errs has the mistakes for which the
// file is rejected, and l.skipped has all other mistakes.
func (l *loader) skipsMistakes() bool { return l.unavailable != nil }

// resolve completes the nodes and the outputs after the whole file was read.
func (l *loader) resolve() {
	pendingStart := 0
	for i := range l.rawNodes {
		interrupt.Check(l.ctx)
		raw := &l.rawNodes[i]
		pending := l.pending[pendingStart:raw.pendingEnd]
		pendingStart = raw.pendingEnd
		// With ParseSome, skipNode has completed the nodes with mistakes.
		if raw.node != nil && raw.opName != "" && !(raw.hasMistake && l.skipsMistakes()) {
			l.completeNode(raw, pending)
		}
	}
	l.resolveOutputs()
}

// completeNode finds the op and the pending operands of a node, decodes the attributes, and completes the node in the
// draft.
func (l *loader) completeNode(raw *rawNode, pending []pendingArg) {
	op, err := l.draft.Op(raw.opName)
	l.draft.Reject(raw.node, err)
	for _, operand := range pending {
		value := l.graph.Value(operand.name)
		if number, ok := numerals.Special(operand.name); value == nil && ok {
			raw.operands[operand.index] = graph.Arg{Kind: graph.NumberArg, Number: tensor.FloatScalar(number)}
			continue
		}
		if value == nil {
			l.rejectNode(raw, operand.offset, l.noOperandError(operand.name))
			l.draft.Complete(raw.node, op, raw.operands, nil)
			return
		}
		raw.operands[operand.index].Value = value
	}
	if err != nil || len(raw.attrs) == 0 {
		l.draft.Complete(raw.node, op, raw.operands, nil)
		return
	}
	decoded := l.decode(op, raw.attrs, raw.attrsOffset)
	l.places.attrs = append(l.places.attrs, attrsPlace{raw.node.Number(), raw.attrsOffset, decoded.attrOffsets})
	if decoded.err != nil {
		l.rejectNode(raw, raw.attrsOffset+decoded.errOffset, decoded.err)
	}
	l.draft.Complete(raw.node, op, raw.operands, decoded.attrs)
}

// decode parses and decodes the attributes in text, which begin at the given offset of the file. Equal attributes are
// decoded once. Symbolic sizes are decoded when the graph is bound.
func (l *loader) decode(op *graph.Op, text []byte, offset int) *decodedAttrs {
	if decoded, ok := l.attrsCache[attrsKey{op, string(text)}]; ok {
		return decoded
	}
	decoded := &decodedAttrs{attrOffsets: map[string]int{}}
	l.attrsCache[attrsKey{op, string(text)}] = decoded
	scanner := newScanner(text, func(errAt int, err error) { decoded.err, decoded.errOffset = err, errAt-offset })
	scanner.base = offset
	attrs := graph.Attrs{}
	if err := l.readAttrs(op.Schema, scanner, attrs, decoded.attrOffsets); err != nil {
		decoded.err, decoded.errOffset = err, scanner.offset()-offset
	}
	for attr, given := range attrs {
		name, ok := nameInRef(given)
		if !ok {
			continue
		}
		value := l.graph.Value(name)
		if value == nil && decoded.err == nil {
			decoded.err = &graph.AttrError{Attr: attr, Err: fmt.Errorf("attribute %q: %w", attr, l.noValueError(name))}
			decoded.errOffset = decoded.attrOffsets[attr]
		}
		attrs[attr] = graph.ValueRef{Value: value}
	}
	if decoded.err == nil {
		decoded.attrs = l.draft.Attributes(op, attrs)
	}
	return decoded
}

// attrsKey identifies decoded attributes by the op and the text in the file. Nodes with equal keys share one
// decodedAttrs, because many nodes of a model have equal attributes.
type attrsKey struct {
	op   *graph.Op
	text string
}

type decodedAttrs struct {
	attrs       *graph.NodeAttrs
	attrOffsets map[string]int // offset of each attribute in bytes, relative to the start of the attributes
	err         error          // the mistake in the attributes, such as the name of an unknown value; nil if there is none
	errOffset   int            // offset of this mistake in bytes, relative to the start of the attributes
}

// readAttrs reads the attributes of an object into `given`. It stores their offsets, relative to scanner.base, in
// attrOffsets.
func (l *loader) readAttrs(schema *graph.Schema, scanner *scanner, given graph.Attrs,
	attrOffsets map[string]int) error {
	return scanner.object(func(key string, offset int) error {
		attrOffsets[key] = offset - scanner.base
		if !isGraph(schema, key) {
			value, err := scanner.value()
			given[key] = value
			return err
		}
		valueOffset := scanner.offset()
		text, err := scanner.raw()
		if err == nil {
			given[key] = l.subgraph(text, valueOffset)
		}
		return err
	})
}

// nameInRef returns the name in {"value": name}. An attribute of this form refers to a value of the graph.
func nameInRef(v any) (string, bool) {
	object, ok := v.(map[string]any)
	if !ok || len(object) != 1 {
		return "", false
	}
	name, ok := object["value"].(string)
	return name, ok
}

// rejectNode reports a mistake in a node. For ParseSome, it records the mistake with the node. For other functions, the
// mistake is an error of the file.
func (l *loader) rejectNode(raw *rawNode, offset int, err error) {
	if l.skipsMistakes() {
		l.draft.Reject(raw.node, err)
		return
	}
	position := l.source.position(offset)
	l.addError(&graph.Error{File: position.File, Line: position.Line, Col: position.Col, Node: raw.node.Name,
		Op: raw.opName, Err: err})
	raw.hasMistake = true
}

// resolveOutputs finds the values of the outputs, and adds the outputs to the graph.
func (l *loader) resolveOutputs() {
	for _, raw := range l.outputs {
		value := l.graph.Value(raw.value)
		_, isDuplicate := l.places.outputs[raw.out.Name]
		if !isDuplicate {
			l.places.outputs[raw.out.Name] = raw.offset
		}
		switch {
		case value == nil && raw.value != "" && l.skipsMistakes() && !isDuplicate: // ParseSome omits the output
			l.skipped = append(l.skipped, l.graph.OutputError(raw.out, l.noValueError(raw.value)))
			continue
		case raw.value == "":
			l.failAt(raw.offset, "\"value\" is missing")
		case value == nil:
			l.failAt(raw.offset, "output %q: %w", raw.out.Name, l.noValueError(raw.value))
		case isDuplicate && l.skipsMistakes():
			// Keep the first output. The second can be omitted, because nothing depends on it.
			l.skipped = append(l.skipped,
				l.source.errorAt(raw.offset, "duplicate output %q: the first one is kept", raw.out.Name))
			continue
		case isDuplicate:
			l.failAt(raw.offset, "two outputs are named %q", raw.out.Name)
		case l.graph.Labels[raw.out.Name].IsText() && value.Meta.DType != tensor.Int64 &&
			value.Meta.DType != tensor.Invalid: // otherwise the value has a mistake of its own
			l.failAt(raw.offset, "output %q has dtype %v: only int64 values can be strings", raw.out.Name, value.Meta.DType)
		}
		raw.out.Value = value
		l.graph.Outputs = append(l.graph.Outputs, raw.out)
	}
}

// noValueError returns the error for a name that no value has.
func (l *loader) noValueError(name string) error {
	if similar := suggest.Nearest(name, l.valueNames); similar != "" {
		return fmt.Errorf("there is no value %q; did you mean %q?", name, similar)
	}
	return fmt.Errorf("there is no value %q", name)
}

// valueNames yields the names of all values.
func (l *loader) valueNames(yield func(string) bool) {
	wantsMore := true
	l.graph.Values(func(v *graph.Value) { wantsMore = wantsMore && yield(v.Name) })
}

// noOperandError returns the error for an operand with a name that no value has. The user may have meant a number.
func (l *loader) noOperandError(name string) error {
	if meant := numerals.IntendedLiteral(name); meant != "" {
		return fmt.Errorf("there is no value %q; did you mean the number %q?", name, meant)
	}
	if _, err := strconv.ParseFloat(name, 64); err == nil {
		return fmt.Errorf("there is no value %q; a number needs no quotes: %s", name, name)
	}
	return l.noValueError(name)
}

// addNodeMistakes adds the mistakes that the draft records for nodes to l.errs, if they are not yet there. It is called
// only if the file is rejected. Otherwise inference returns these mistakes.
func (l *loader) addNodeMistakes() {
	for _, raw := range l.rawNodes {
		if err := l.draft.Refused(raw.node); err != nil && !raw.hasMistake {
			l.addError(l.graph.NodeError(raw.node, err))
		}
	}
}
