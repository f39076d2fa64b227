package graph

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun/internal/words"
	"github.com/graphrun/graphrun/tensor"
)

// rawNode is a node as read. Names of values that stand later in the file wait among the
// loader's pending operands.
type rawNode struct {
	node     *Node
	op       string
	attrs    []byte // as written; part of the file
	attrsAt  int    // where they stand in it
	pending  int    // end of its pending operands, which start where the last node's end
	declared bool   // its name is its own
	wrong    bool   // a mistake has been told: what follows from it need not be
}

// pendingArg is an operand whose value was not known yet when it was read.
type pendingArg struct {
	name      string
	index, at int
}

// attrsKey is what decoded attributes depend on: nodes of a model repeat them, so they
// are parsed and decoded once, and shared.
type attrsKey struct {
	op   *Op
	text string
}

type attrsValue struct {
	given     Attrs
	decoded   any
	places    map[string]int // of each attribute, from where they start
	refs      bool           // some are values
	malformed error          // it cannot be read
	badAt     int            // where that is, from where they start
	err       error          // it is not what the op wants
}

// slab hands out nodes, values and operands of a file from blocks: hundreds of thousands
// of allocations of their own take longer than to read them.
type slab struct {
	nodes  []Node
	values []Value
	outs   []*Value
	args   []Arg
}

const slabSize = 256

// take returns n fresh elements of the block, which is replaced when it is used up.
func take[T any](block *[]T, n int) []T {
	if len(*block) < n {
		*block = make([]T, max(n, slabSize))
	}
	out := (*block)[:n:n]
	*block = (*block)[n:]
	return out
}

// node reads one node.
func (l *loader) node(at int) error {
	n := &take(&l.slab.nodes, 1)[0]
	*n = Node{at: at}
	r := rawNode{node: n}
	var outputs []string
	hasOutputs := false
	before := len(l.errs)
	err := l.scan.object(func(key string, at int) error {
		switch key {
		case "name":
			return l.scan.text(&n.Name)
		case "op":
			op, err := l.opName()
			r.op = op
			return err
		case "inputs":
			return l.operands(n)
		case "attrs":
			if ok, err := l.attrsKind(); !ok {
				return err
			}
			r.attrsAt = l.scan.at()
			raw, err := l.scan.raw()
			r.attrs = raw
			return err
		case "outputs":
			hasOutputs = true
			return l.scan.array(func(at int) error {
				var s string
				err := l.scan.text(&s)
				outputs = append(outputs, s)
				return err
			})
		case "memory_format":
			return l.scan.format(&n.Pin.Format)
		case "order":
			return l.scan.order(&n.Pin.Order)
		case "impl":
			return l.scan.text(&n.Pin.Impl)
		}
		return l.unknown(key, at, "name, op, inputs, attrs, outputs, memory_format, order, impl")
	})
	r.pending = len(l.pending)
	if hasOutputs && len(outputs) == 0 && len(l.errs) == before {
		l.failAt(at, "\"outputs\" is empty")
	}
	if n.Pin.both() {
		l.failAt(at, "%v", errBoth)
	}
	l.declare(&r, outputs, before)
	r.wrong = len(l.errs) > before
	l.raw = append(l.raw, r)
	l.blameNode(&r, before, err != nil)
	return err
}

// blameNode says of the mistakes since before which node they are of. A loader that goes on past
// them, unless it has lost its place or the node takes the name of another value, leaves the first
// to inference.
func (l *loader) blameNode(r *rawNode, before int, lost bool) {
	n := r.node
	for _, e := range l.errs[before:] {
		e.Node, e.Op = n.Name, r.op
	}
	taken := func(v *Value) bool { return l.g.named().values[v.Name] != v }
	if l.absent != nil && !lost && r.declared && len(l.errs) > before && !slices.ContainsFunc(n.Out, taken) {
		n.badArgs, n.Op, l.errs = l.errs[before].Err, unknownOp(r.op), l.errs[:before]
	}
}

// opName reads the name of an op; one of the catalogue is not allocated again.
func (l *loader) opName() (string, error) {
	if ok, err := l.scan.is('"', "a string"); !ok {
		return "", err
	}
	return l.scan.key()
}

// attrsKind lets an object pass and skips null.
func (l *loader) attrsKind() (bool, error) {
	if l.scan.dec.PeekKind() == 'n' {
		return false, l.scan.skip()
	}
	return l.scan.is('{', "an object")
}

// operands reads the list of a node's inputs.
func (l *loader) operands(n *Node) error {
	l.scratch = l.scratch[:0]
	err := l.scan.array(func(at int) error {
		a, err := l.operand(at)
		l.scratch = append(l.scratch, a)
		return err
	})
	n.In = take(&l.slab.args, len(l.scratch))
	copy(n.In, l.scratch)
	return err
}

func (l *loader) operand(at int) (Arg, error) {
	if l.scan.isText() {
		raw, err := l.scan.quoted()
		if v := l.g.named().values[string(raw)]; v != nil {
			return Arg{Kind: TensorArg, Value: v}, err
		}
		l.pending = append(l.pending, pendingArg{string(raw), len(l.scratch), at})
		return Arg{Kind: TensorArg}, err
	}
	switch l.scan.dec.PeekKind() {
	case '[', '{':
		v, err := l.scan.value()
		if s, ok := spelledNumber(v); ok {
			return Arg{Kind: NumberArg, Number: s}, err
		}
		if err == nil {
			l.failAt(at, "an input must be a value's name, a number or null")
		}
		return Arg{}, err
	}
	v, err := l.scan.value()
	if s, ok := tensor.ScalarOf(v); ok {
		return Arg{Kind: NumberArg, Number: s}, err
	}
	return Arg{}, err
}

// spelledNumber reads {"number": ...}, which stands for an operand that JSON has no
// literal for: "NaN", "Infinity", "-Infinity", or a complex number as a pair.
func spelledNumber(v any) (tensor.Scalar, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return tensor.Scalar{}, false
	}
	return scalarOf(m["number"])
}

// declare makes the node and its outputs known by name. Mistakes since before are of this
// node.
func (l *loader) declare(r *rawNode, outputs []string, before int) {
	g, n := l.g, r.node
	names := g.named()
	switch {
	case n.Name == "":
		if len(l.errs) == before {
			l.failAt(n.at, "node without a name")
		}
		return
	case names.node(n.Name) != nil:
		l.failAt(n.at, "two nodes are named %q", n.Name)
		return
	case r.op == "":
		if len(l.errs) == before {
			l.failAt(n.at, "\"op\" is missing")
		}
	}
	r.declared = true
	g.Nodes = append(g.Nodes, n)
	n.Out = take(&l.slab.outs, max(len(outputs), 1))
	vals := take(&l.slab.values, len(n.Out))
	for i := range vals {
		name := n.Name
		if len(outputs) > 0 {
			name = outputs[i]
		}
		vals[i] = Value{Name: name, Node: n, Index: i, graph: g, at: n.at}
		n.Out[i] = &vals[i]
		switch {
		case name == "":
			l.failAt(n.at, "a value needs a name")
		case names.values[name] != nil:
			l.failAt(n.at, "two values are named %q", name)
		default:
			g.number(&vals[i])
			names.values[name] = &vals[i]
		}
	}
	names.addNode(n)
}

// resolve completes the nodes and ties the outputs to values, when all of the file was
// read.
func (l *loader) resolve() {
	g := l.g
	at := 0
	for i := range l.raw {
		r := &l.raw[i]
		waiting := l.pending[at:r.pending]
		at = r.pending
		if r.declared && r.op != "" && r.node.badArgs == nil {
			l.complete(r, waiting)
		}
	}
	names := map[string]bool{}
	for _, r := range l.outputs {
		v := g.named().values[r.value]
		switch {
		case v == nil && r.value != "" && l.absent != nil && !names[r.out.Name]:
			l.missing = append(l.missing, g.FailOutput(r.out, l.noValue(r.value)))
			names[r.out.Name] = true
			continue
		case r.value == "":
			l.failAt(r.out.at, "\"value\" is missing")
		case v == nil:
			l.failAt(r.out.at, "output %q: %w", r.out.Name, l.noValue(r.value))
		case names[r.out.Name]:
			l.failAt(r.out.at, "two outputs are named %q", r.out.Name)
		}
		names[r.out.Name] = true
		r.out.Value = v
		g.Outputs = append(g.Outputs, r.out)
	}
}

// complete finds the node's op and the operands that stand later in the file.
func (l *loader) complete(r *rawNode, waiting []pendingArg) {
	g, n := l.g, r.node
	op, undefined := g.find(r.op)
	n.Op = op
	fail := func(at int, err error) {
		if l.absent != nil {
			n.badArgs = err
			return
		}
		l.add(g.src.locate(&Error{Node: n.Name, Op: r.op, Err: err}, at))
	}
	if n.Op == nil {
		n.Op, n.badArgs = unknownOp(r.op), undefined
		if undefined == nil {
			n.badArgs = NoOp(r.op, g.lookup)
		}
	}
	for _, p := range waiting {
		v := g.named().values[p.name]
		if x, ok := special(p.name); v == nil && ok {
			n.In[p.index] = Arg{Kind: NumberArg, Number: tensor.FloatScalar(x)}
			continue
		}
		if v == nil {
			fail(p.at, l.noOperand(p.name))
			return
		}
		n.In[p.index].Value = v
	}
	if n.badArgs != nil {
		n.trim()
		return
	}
	if len(r.attrs) == 0 && n.Op.Schema.zero != nil {
		n.trim()
		n.badArgs = n.checkCall()
		n.Attrs = n.Op.Schema.zero
		return
	}
	a := l.decode(n.Op, r.attrs, r.attrsAt)
	n.given, n.Attrs, n.badAttrs = a.given, a.decoded, a.err
	n.attrAt, n.attrsAt = a.places, r.attrsAt
	n.badArgs = n.takeNumbers(l.g.Value)
	n.trim()
	if n.badArgs == nil {
		n.badArgs = n.checkCall()
	}
	if a.refs {
		if err := l.bindRefs(n); err != nil {
			fail(n.placeOf(err), err)
			return
		}
	}
	if a.malformed != nil {
		fail(r.attrsAt+a.badAt, a.malformed)
	}
}

// noValue returns the error of a name that no value has.
func (l *loader) noValue(name string) error {
	if near := words.Nearest(name, maps.Keys(l.g.named().values)); near != "" {
		return fmt.Errorf("there is no value %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("there is no value %q", name)
}

// noOperand is noValue for an operand, which may be a number in another spelling.
func (l *loader) noOperand(name string) error {
	if meant := wrongNumber(name); meant != "" {
		return fmt.Errorf("there is no value %q; did you mean the number %q?", name, meant)
	}
	if _, err := strconv.ParseFloat(name, 64); err == nil {
		return fmt.Errorf("there is no value %q; a number stands without quotes: %s", name, name)
	}
	return l.noValue(name)
}

// addRefusals adds what inference would tell to the mistakes of a file that gets no
// further.
func (l *loader) addRefusals() {
	for _, r := range l.raw {
		if err := r.node.bad(); err != nil && !r.wrong {
			l.add(l.g.Fail(r.node, err))
		}
	}
}

// decode parses and decodes attributes. Where sizes are symbolic they are decoded when
// these are bound.
func (l *loader) decode(op *Op, raw []byte, at int) attrsValue {
	if a, ok := l.attrs[attrsKey{op, string(raw)}]; ok {
		return a
	}
	var a attrsValue
	if len(raw) > 0 {
		s := newScanner(raw, func(bad int, err error) { a.malformed, a.badAt = err, bad-at })
		s.base = at
		a.given, a.places = Attrs{}, map[string]int{}
		if err := l.attrValues(op.Schema, s, &a); err != nil {
			a.malformed, a.badAt = err, s.at()-at
		}
	}
	own := a.given
	if op.hasNumbers(own) {
		own = maps.Clone(own)
		maps.DeleteFunc(own, func(name string, _ any) bool { return op.numberAt(name) >= 0 })
	}
	for _, v := range own {
		if _, ok := refName(v); ok {
			a.refs = true
		}
	}
	if a.malformed == nil && len(l.g.Symbols) == 0 && !a.refs {
		a.decoded, a.err = op.Schema.Decode(own, nil)
	}
	l.attrs[attrsKey{op, string(raw)}] = a
	return a
}

// attrValues reads the attributes of an object.
func (l *loader) attrValues(schema *Schema, s *scanner, a *attrsValue) error {
	return s.object(func(key string, at int) error {
		a.places[key] = at - s.base
		if !schema.isGraph(key) {
			v, err := s.value()
			a.given[key] = v
			return err
		}
		at = s.at()
		raw, err := s.raw()
		if err == nil {
			a.given[key] = l.subgraph(raw, at)
		}
		return err
	})
}

// refName returns the name in {"value": name}, an attribute that is a value.
func refName(v any) (string, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", false
	}
	name, ok := m["value"].(string)
	return name, ok
}

// bindRefs ties attributes that are values to them.
func (l *loader) bindRefs(n *Node) error {
	n.given = maps.Clone(n.given)
	for attr, v := range n.given {
		name, ok := refName(v)
		if !ok {
			continue
		}
		value := l.g.named().values[name]
		if value == nil {
			return &attrError{attr, fmt.Errorf("attribute %q: %w", attr, l.noValue(name))}
		}
		n.given[attr] = Ref{value}
	}
	n.takeRefs()
	if len(l.g.Symbols) == 0 {
		n.Attrs, n.badAttrs = n.decode(nil)
	}
	return nil
}

// unknownOp stands for an op that there is not, so that a graph can be inferred past its
// nodes, which are refused.
func unknownOp(name string) *Op {
	return &Op{Name: name, Schema: SchemaOf[struct{}]()}
}
