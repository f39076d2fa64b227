package graph

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/graphrun/graphrun/sym"
)

// Define checks an op and completes derived fields: the schema of an op without attributes, and the kind and Infer of
// an op with a Pointwise part. (fusion.Define adds the loop of the Pointwise part.) A graph accepts only ops that
// Define returned; a changed copy must be defined again.
//
// Errors name the op and the invalid field. Several errors are joined.
func Define(op Op) (*Op, error) {
	d := &definer{op: &op}
	d.complete()
	d.checkName()
	d.checkSchema()
	d.checkParams()
	d.checkOutputs()
	d.checkFunctions()
	if len(d.errs) > 0 {
		return nil, errors.Join(d.errs...)
	}
	op.completeImpls()
	op.Infer = rejectOverflow(op.Infer)
	op.defined = &op
	op.derived = &derivedValues{values: map[any]func() any{}}
	return &op, nil
}

// Derived caches values that are computed from the op, such as the fused op for a chain of nodes whose first node has
// this op. It calls compute once for each key and returns the result. key must be comparable, and of a type that only
// the caller uses.
// Derived returns nil for an op that Define did not make.
func (op *Op) Derived(key any, compute func() any) any {
	if op == nil || op.defined == nil {
		return nil
	}
	return op.defined.derived.get(key, compute)
}

// derivedValues is the cache of [Op.Derived]. It is not a sync.Map: the generic map inside sync.Map would be compiled
// again in every package that uses Op.
type derivedValues struct {
	mu     sync.RWMutex
	values map[any]func() any
}

func (d *derivedValues) get(key any, compute func() any) any {
	d.mu.RLock()
	value, ok := d.values[key]
	d.mu.RUnlock()
	if !ok {
		d.mu.Lock()
		if value, ok = d.values[key]; !ok {
			value = sync.OnceValue(compute)
			d.values[key] = value
		}
		d.mu.Unlock()
	}
	return value()
}

// rejectOverflow returns a function like infer that rejects calls for which a computation with sizes overflows.
func rejectOverflow(infer func(call *Call) ([]Result, error)) func(call *Call) ([]Result, error) {
	return func(call *Call) (_ []Result, err error) {
		defer sym.Catch(&err)
		return infer(call)
	}
}

// definer collects the errors of an op.
type definer struct {
	op   *Op
	errs []error
}

func (d *definer) fail(field, format string, args ...any) {
	name := fmt.Sprintf("%q", d.op.Name)
	if d.op.Name == "" {
		name = "without a name"
	}
	d.errs = append(d.errs, fmt.Errorf("op %s: %s: %s", name, field, fmt.Sprintf(format, args...)))
}

// complete sets derived fields.
func (d *definer) complete() {
	op := d.op
	if op.Schema == nil {
		op.Schema = SchemaOf[struct{}]()
	}
	if p := op.Pointwise; p != nil {
		if op.Kind == OwnLayout {
			op.Kind = FollowsOperands
		}
		if op.Infer == nil {
			op.Infer = p.Infer
		}
	}
}

// checkName checks that the op's name can be written in a graph file, and that names of values can contain it.
func (d *definer) checkName() {
	if d.op.Name == "" {
		d.fail("Name", "it is empty")
	}
	unfit := func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f || r == '\ufffd' }
	if i := strings.IndexFunc(d.op.Name, unfit); i >= 0 {
		d.fail("Name", "%q cannot be in a name", d.op.Name[i:i+1])
	}
}

func (d *definer) checkSchema() {
	if d.op.Schema.empty == nil {
		d.fail("Schema", "it was not made by SchemaOf")
		return
	}
	// An attribute may have the name of an optional operand, because aten has pairs of overloads: in one overload the
	// argument is a number, in the other a tensor.
	operands := map[string]bool{}
	for _, p := range d.op.Params {
		operands[p.Name] = !p.Optional
	}
	seen := map[string]bool{}
	for _, f := range d.op.Schema.Fields {
		switch {
		case f.Name == "":
			d.fail("Schema", "an attribute has no name")
		case seen[f.Name]:
			d.fail("Schema", "two attributes are named %q", f.Name)
		case operands[f.Name]:
			d.fail("Schema", "%q is the name of both an attribute and a required operand", f.Name)
		}
		seen[f.Name] = true
	}
}

func (d *definer) checkParams() {
	seen := map[string]bool{}
	for i, p := range d.op.Params {
		switch {
		case p.Name == "":
			d.fail("Params", "operand %d has no name", i)
		case seen[p.Name]:
			d.fail("Params", "two operands are named %q", p.Name)
		case p.Variadic && i < len(d.op.Params)-1:
			d.fail("Params", "operand %q is a list and must be the last", p.Name)
		}
		seen[p.Name] = true
	}
}

func (d *definer) checkOutputs() {
	if d.op.Many && d.op.Outputs != nil {
		d.fail("Outputs", "the results have names, but Many says that their number varies")
	}
	if d.op.Outputs != nil && len(d.op.Outputs) == 0 {
		d.fail("Outputs", "the list is empty: an op has at least one result")
	}
	seen := map[string]bool{}
	for i, name := range d.op.Outputs {
		switch {
		case name == "":
			d.fail("Outputs", "output %d has no name", i)
		case seen[name]:
			d.fail("Outputs", "two outputs are named %q", name)
		}
		seen[name] = true
	}
}

// checkFunctions checks that the op has the functions that its kind requires.
func (d *definer) checkFunctions() {
	op := d.op
	if p := op.Pointwise; p != nil {
		d.checkPointwise(p)
	}
	switch {
	case op.Kind > RequiresLayout:
		d.fail("Kind", "%d is not a kind", op.Kind)
	case op.Kind == RequiresLayout && len(op.Impls) == 0:
		d.fail("Impls", "an op of kind %v needs implementations, because it reads only some layouts", op.Kind)
	}
	d.checkImpls()
	if op.Copies && (!op.Identity || !op.AnyOrder || op.Kind != OwnLayout) {
		d.fail("Copies", "the op must have kind %v, Identity and AnyOrder", OwnLayout)
	}
	if op.Permutes != nil && op.Kind != View {
		d.fail("Permutes", "only a view can have it, and the kind is %v", op.Kind)
	}
	if op.Infer == nil {
		d.fail("Infer", "it is missing, and there is no Pointwise from which it could be derived")
	}
	switch {
	case op.Decompose != nil && (op.Compile != nil || len(op.Impls) > 0 || op.RunDynamic != nil):
		d.fail("Decompose", "an op with Decompose must not have a kernel")
	case op.Compile == nil && len(op.Impls) == 0 && op.RunDynamic == nil && op.Kind != View && op.Decompose == nil &&
		op.Chooses == nil:
		d.fail("Compile", "it is missing: only views and ops with Decompose, RunDynamic or Chooses need no kernel")
	}
	switch {
	case op.Ref == nil && op.NoRef == "":
		d.fail("Ref", "it is missing: an op without a reference needs a reason in NoRef")
	case op.Ref != nil && op.NoRef != "":
		d.fail("NoRef", "it is the reason why there is no Ref, but there is a Ref")
	}
}

// checkImpls checks that implementations have distinct names and a Lower function.
func (d *definer) checkImpls() {
	seen := map[string]bool{}
	for i, impl := range d.op.Impls {
		switch {
		case impl.Name == "":
			d.fail("Impls", "implementation %d has no name", i)
		case seen[impl.Name]:
			d.fail("Impls", "two implementations are named %q", impl.Name)
		case impl.Lower == nil:
			d.fail("Impls", "implementation %q lacks Lower", impl.Name)
		}
		seen[impl.Name] = true
	}
	if len(d.op.Impls) > 0 && d.op.Compile != nil {
		d.fail("Compile", "it must be nil if there are Impls")
	}
}

func (d *definer) checkPointwise(p *Pointwise) {
	op := d.op
	if p.Config == nil {
		d.fail("Pointwise", "Config is missing")
	}
	if p.Body == nil {
		d.fail("Pointwise", "Body is missing")
	}
	if p.Outputs < 0 || p.Grain < 0 {
		d.fail("Pointwise", "Outputs is %d and Grain %d: both must not be negative", p.Outputs, p.Grain)
	}
	switch results, described := max(len(op.Outputs), 1), max(p.Outputs, 1); {
	case op.Many != (p.Results != nil):
		d.fail("Pointwise", "Results must be set if and only if Many is set")
	case !op.Many && results != described:
		d.fail("Pointwise", "it has %d results, but the op has %d", described, results)
	}
	if op.Kind != FollowsOperands {
		d.fail("Kind", "an op with a Pointwise part is of kind %v, not %v", FollowsOperands, op.Kind)
	}
}

// find returns an op of the graph's catalogue, or nil if the catalogue has no op of that name. It fails for an op that
// Define did not make.
func (g *Graph) find(name string) (*Op, error) {
	if g.lookup == nil {
		return nil, errors.New("the graph has no catalogue of ops: give New a Lookup")
	}
	op := g.lookup(name)
	if op != nil && op.defined != op {
		return nil, fmt.Errorf("op %q was not made by graph.Define", op.Name)
	}
	return op, nil
}
