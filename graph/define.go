package graph

import (
	"errors"
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/memo"
	"github.com/graphrun/graphrun/sym"
)

// Define checks an op and sets the fields that can be derived: Schema for an op without attributes, and Kind and Infer
// for an op with a Pointwise part. (fusion.Define also derives the kernel of the Pointwise part.) A graph accepts only
// ops that Define returned. A copy of an op must be passed to Define again. A view, for example, needs no kernel:
//
//	flatten, err := graph.Define(graph.Op{Semantics: graph.Semantics{Name: "flatten", Kind: graph.View,
//		Params: []graph.Param{{Name: "self"}}, Infer: inferFlatten, Ref: refFlatten}})
//
// Errors name the op and the invalid field. Several errors are joined.
func Define(op Op) (*Op, error) {
	check := &definer{op: &op}
	check.complete()
	check.checkName()
	check.checkSchema()
	check.checkParams()
	check.checkOutputs()
	check.checkFunctions()
	if len(check.errs) > 0 {
		return nil, errors.Join(check.errs...)
	}
	op.completeImpls()
	op.Infer = rejectOverflow(op.Infer)
	op.original = &op // marks op as made by Define: see findOp
	op.derived = new(memo.Memo)
	return &op, nil
}

// definer checks one op for [Define] and collects the errors.
type definer struct {
	op   *Op
	errs []error
}

// fail adds an error about a field of the op.
func (check *definer) fail(field, format string, args ...any) {
	name := fmt.Sprintf("%q", check.op.Name)
	if check.op.Name == "" {
		name = "without a name"
	}
	check.errs = append(check.errs, fmt.Errorf("op %s: %s: %s", name, field, fmt.Sprintf(format, args...)))
}

// complete sets derived fields.
func (check *definer) complete() {
	op := check.op
	if op.Schema == nil {
		op.Schema = SchemaOf[struct{}]()
	}
	if p := op.Pointwise; p != nil {
		op.ConstantsByAddress = true
		if op.Kind == OwnLayout { // the zero Kind: none was set
			op.Kind = FollowsOperands
		}
		if op.Infer == nil {
			op.Infer = p.Infer
		}
	}
}

// checkName checks that the op's name can be written in a graph file, and that names of values can contain it.
func (check *definer) checkName() {
	if check.op.Name == "" {
		check.fail("Name", "the name is empty")
	}
	// A name must not have spaces, control characters, quotes or U+FFFD, which replaces invalid UTF-8.
	isForbidden := func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f || r == '\ufffd' }
	if i := strings.IndexFunc(check.op.Name, isForbidden); i >= 0 {
		check.fail("Name", "%q cannot be in a name", check.op.Name[i:i+1])
	}
}

// checkSchema checks that SchemaOf made the schema, and that the names of attributes are unique.
func (check *definer) checkSchema() {
	if check.op.Schema.zeroStruct == nil {
		check.fail("Schema", "the schema must be made by SchemaOf")
		return
	}
	// An attribute may have the name of an optional operand. The reason is that aten has pairs of overloads with the
	// same argument: a number in one overload, and a tensor in the other.
	isRequired := map[string]bool{}
	for _, p := range check.op.Params {
		isRequired[p.Name] = !p.Optional
	}
	usedNames := map[string]bool{}
	for _, f := range check.op.Schema.Fields {
		switch {
		case f.Name == "":
			check.fail("Schema", "an attribute has no name")
		case usedNames[f.Name]:
			check.fail("Schema", "two attributes are named %q", f.Name)
		case isRequired[f.Name]:
			check.fail("Schema", "%q is the name of both an attribute and a required operand", f.Name)
		}
		usedNames[f.Name] = true
	}
}

// checkParams checks the names of operands, and that only the last operand is a list.
func (check *definer) checkParams() {
	usedNames := map[string]bool{}
	for i, p := range check.op.Params {
		switch {
		case p.Name == "":
			check.fail("Params", "operand %d has no name", i)
		case usedNames[p.Name]:
			check.fail("Params", "two operands are named %q", p.Name)
		case p.Variadic && i < len(check.op.Params)-1:
			check.fail("Params", "operand %q is a list and must be the last", p.Name)
		}
		usedNames[p.Name] = true
	}
}

// checkOutputs checks the names of results.
func (check *definer) checkOutputs() {
	if check.op.VariadicResults && check.op.Outputs != nil {
		check.fail("Outputs", "the results have names, but VariadicResults says that their number varies")
	}
	if check.op.Outputs != nil && len(check.op.Outputs) == 0 {
		check.fail("Outputs", "the list is empty: an op has at least one result")
	}
	usedNames := map[string]bool{}
	for i, name := range check.op.Outputs {
		switch {
		case name == "":
			check.fail("Outputs", "output %d has no name", i)
		case usedNames[name]:
			check.fail("Outputs", "two outputs are named %q", name)
		}
		usedNames[name] = true
	}
}

// checkFunctions checks that the op has the functions that its kind requires.
func (check *definer) checkFunctions() {
	op := check.op
	if p := op.Pointwise; p != nil {
		check.checkPointwise(p)
	}
	switch {
	case op.Kind > RequiresLayout:
		check.fail("Kind", "%d is not a kind", op.Kind)
	case op.Kind == RequiresLayout && len(op.Impls) == 0:
		check.fail("Impls", "an op of kind %v needs implementations, because it reads only some layouts", op.Kind)
	}
	check.checkImpls()
	if op.Copies && (!op.Identity || !op.WritesAnyDenseLayout || op.Kind != OwnLayout) {
		check.fail("Copies", "the op must have kind %v, Identity and WritesAnyDenseLayout", OwnLayout)
	}
	if op.Permutes != nil && op.Kind != View {
		check.fail("Permutes", "only a view can permute dimensions, but the kind is %v", op.Kind)
	}
	if op.Infer == nil {
		check.fail("Infer", "the function is missing, and there is no Pointwise from which it could be derived")
	}
	hasKernel := op.Compile != nil || len(op.Impls) > 0 || op.RunDynamic != nil
	needsKernel := op.Kind != View && op.Decompose == nil && op.TakenBranch == nil
	switch {
	case op.Decompose != nil && hasKernel:
		check.fail("Decompose", "an op with Decompose must not have a kernel")
	case needsKernel && !hasKernel:
		check.fail("Compile", "the function is missing: only views and ops with Decompose, RunDynamic or TakenBranch need "+
			"no kernel")
	}
	switch {
	case op.Ref == nil && op.NoRef == "":
		check.fail("Ref", "the function is missing: an op without a reference needs a reason in NoRef")
	case op.Ref != nil && op.NoRef != "":
		check.fail("NoRef", "the reason is set although Ref is set")
	}
}

// checkImpls checks that implementations have distinct names and a Lower function.
func (check *definer) checkImpls() {
	usedNames := map[string]bool{}
	for i, impl := range check.op.Impls {
		switch {
		case impl.Name == "":
			check.fail("Impls", "implementation %d has no name", i)
		case usedNames[impl.Name]:
			check.fail("Impls", "two implementations are named %q", impl.Name)
		case impl.Lower == nil:
			check.fail("Impls", "implementation %q lacks Lower", impl.Name)
		}
		usedNames[impl.Name] = true
	}
	if len(check.op.Impls) > 0 && check.op.Compile != nil {
		check.fail("Compile", "the function must be nil if there are Impls")
	}
}

// checkPointwise checks that the Pointwise part of an op is complete and fits the results and the kind of the op.
func (check *definer) checkPointwise(p *Pointwise) {
	op := check.op
	if p.Config == nil {
		check.fail("Pointwise", "Config is missing")
	}
	if p.Body == nil {
		check.fail("Pointwise", "Body is missing")
	}
	if p.Outputs < 0 || p.Grain < 0 {
		check.fail("Pointwise", "Outputs is %d and Grain %d: both must not be negative", p.Outputs, p.Grain)
	}
	opResults, partResults := max(len(op.Outputs), 1), max(p.Outputs, 1)
	switch {
	case op.VariadicResults != (p.Results != nil):
		check.fail("Pointwise", "Results must be set if and only if VariadicResults is set")
	case !op.VariadicResults && opResults != partResults:
		check.fail("Pointwise", "the part has %d results, but the op has %d", partResults, opResults)
	}
	if op.Kind != FollowsOperands {
		check.fail("Kind", "an op with a Pointwise part is of kind %v, not %v", FollowsOperands, op.Kind)
	}
}

// rejectOverflow returns a function that calls infer. The function returns an error if a computation with
// sizes overflows.
func rejectOverflow(infer func(call *Call) ([]Result, error)) func(call *Call) ([]Result, error) {
	return func(call *Call) (_ []Result, err error) {
		defer sym.Catch(&err)
		return infer(call)
	}
}

// findOp returns an op of the graph's catalogue, or nil without an error if the catalogue has no op of that name. It
// fails if the graph has no catalogue, or if Define did not make the op.
func (g *Graph) findOp(name string) (*Op, error) {
	if g.lookup == nil {
		return nil, errors.New("the graph has no catalogue of ops: give New a Lookup")
	}
	op := g.lookup(name)
	if op != nil && op.original != op { // original is nil, or op is a copy
		return nil, fmt.Errorf("op %q was not made by graph.Define", op.Name)
	}
	return op, nil
}

// Derived returns the value that compute returned first for the key: see [memo.Memo]. An example is the fused op for a
// group of nodes whose first node has this op. key is of a type that only the caller uses. Derived returns nil for an
// op that Define did not make.
func (op *Op) Derived(key any, compute func() any) any {
	if op == nil || op.original == nil {
		return nil
	}
	return op.original.derived.Get(key, compute)
}
