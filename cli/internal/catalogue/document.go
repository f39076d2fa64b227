package catalogue

import (
	"slices"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/program"
)

// Document is the output of "graphrun ops --json".
type Document struct {
	Ops document.Stream[OpDoc] `json:"ops" doc:"The selected ops."`
}

// OpDoc describes an op. [document.Schema] explains the struct tag "of".
type OpDoc struct {
	Name             string        `json:"name" doc:"The name, as in PyTorch."`
	Doc              string        `json:"doc" doc:"The effect of the op."`
	Kind             string        `json:"kind" of:"kind" doc:"The layout rule of the op."`
	DTypes           []string      `json:"dtypes" of:"dtype" doc:"The dtypes that operands accept; if operands differ, the longest list."`
	Operands         []operandDoc  `json:"operands" doc:"The operands, in order."`
	Attributes       []attrDoc     `json:"attributes" doc:"The attributes."`
	OtherAttributes  string        `json:"others,omitzero" doc:"The meaning of attributes with any other name; absent if the op rejects other names."`
	Outputs          []string      `json:"outputs" doc:"The names of the results; empty for a single result."`
	Results          *int          `json:"results" doc:"The number of results; null if the number depends on attributes and shapes."`
	Dynamic          bool          `json:"dynamic" doc:"Whether the shapes of the results depend on data."`
	Formulas         []FormulaDoc  `json:"formulas,omitempty" doc:"The formulas of one element; absent if there are none."`
	Functions        []FunctionDoc `json:"functions,omitempty" doc:"The functions that a formula may call; absent if no attribute of the op is a formula."`
	Implementations  []implDoc     `json:"implementations" doc:"The implementations; among implementations of equal cost the planner chooses the first."`
	AnyOrder         bool          `json:"any_order" doc:"Whether results can be written in any order of dimensions."`
	AsInferredReason string        `json:"as_inferred,omitzero" doc:"The reason why results always have the inferred layout; absent if an implementation writes other layouts."`
}

// implDoc describes an implementation of an op.
type implDoc struct {
	Name string `json:"name" doc:"The name, by which a graph or an option prescribes (pins) the implementation."`
	Doc  string `json:"doc" doc:"The algorithm, and the calls that it supports."`
}

// operandDoc describes an operand of an op.
type operandDoc struct {
	Name      string                      `json:"name" doc:"The name of the operand."`
	Optional  bool                        `json:"optional" doc:"Whether the operand may be null or left out."`
	Number    bool                        `json:"number" doc:"Whether the operand may be a number."`
	Variadic  bool                        `json:"variadic" doc:"Whether the operand is a list of tensors; the op then has no other inputs."`
	Attribute string                      `json:"attribute,omitzero" doc:"The attribute that gives a number in place of the operand."`
	Overload  string                      `json:"overload,omitzero" doc:"The overload that is selected if a number takes the place of the operand."`
	Index     bool                        `json:"index" doc:"Whether the elements of the operand are indices or lengths."`
	DTypes    document.ListOrNull[string] `json:"dtypes" of:"dtype" doc:"The dtypes of the operand with which an example of the op passes type inference; null if no example contains the operand."`
}

// attrDoc describes an attribute of an op.
type attrDoc struct {
	Name     string   `json:"name" doc:"The name of the attribute."`
	Type     string   `json:"type" doc:"The type in words."`
	Required bool     `json:"required" doc:"Whether the attribute must be given."`
	Default  any      `json:"default" doc:"The default, as in graph files; null for none."`
	Choices  []string `json:"choices,omitempty" doc:"The allowed strings; absent if the allowed values are not a list of strings."`
	Doc      string   `json:"doc,omitzero" doc:"The effect of the attribute."`
}

// docOf returns the document of an op.
func docOf(op *graph.Op) OpDoc {
	dtypes := dtypesOf(op)
	d := OpDoc{Name: op.Name, Doc: op.Doc, Kind: op.Kind.String(), DTypes: dtypes.mostGeneral().names(),
		AsInferredReason: op.FixedLayoutReason, Dynamic: op.RunDynamic != nil,
		Operands: []operandDoc{}, Attributes: []attrDoc{}, Outputs: program.NotNil(op.Outputs)}
	if !op.VariadicResults {
		n := max(1, len(op.Outputs))
		d.Results = &n
	}
	if op.Schema.Additional != nil {
		d.OtherAttributes = op.Schema.Additional.Doc
	}
	d.Formulas = formulasOf(op)
	d.Functions = functionsOf(op)
	d.AnyOrder = op.WritesAnyDenseLayout || op.Kind == graph.FollowsOperands
	d.Implementations = []implDoc{}
	for _, impl := range op.Impls {
		d.Implementations = append(d.Implementations, implDoc{impl.Name, impl.Doc})
	}
	for i, p := range op.Params {
		doc := operandDoc{Name: p.Name, Optional: p.Optional, Number: p.AcceptsNumber, Variadic: p.Variadic,
			Index: p.IndexBound != nil, Attribute: op.NumberAttr(p), Overload: p.Overload}
		if set := dtypes.operands[i]; set != nil {
			doc.DTypes = set.names()
		}
		d.Operands = append(d.Operands, doc)
	}
	for _, f := range op.Schema.Fields {
		doc := attrDoc{Name: f.Name, Type: f.Type, Required: f.Required, Doc: f.Doc,
			// OneOf has the allowed strings of a string attribute. An integer attribute may also be one of its Words.
			Choices: slices.Concat(f.OneOf, f.Words)}
		doc.Default, _ = f.DefaultValue()
		d.Attributes = append(d.Attributes, doc)
	}
	return d
}
