package catalogue

import (
	"slices"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/graph"
)

// Document is what ops prints.
type Document struct {
	Ops document.Stream[OpDoc] `json:"ops" doc:"The ops that were asked for."`
}

// OpDoc is the page of an op.
type OpDoc struct {
	Name            string        `json:"name" doc:"Its name, PyTorch's."`
	Doc             string        `json:"doc" doc:"What it does."`
	Kind            string        `json:"kind" of:"kind" doc:"What it asks of layouts."`
	DTypes          []string      `json:"dtypes" of:"dtype" doc:"What the most general operand may hold."`
	Operands        []operandDoc  `json:"operands" doc:"What it takes as inputs, in their order."`
	Attributes      []attrDoc     `json:"attributes" doc:"What it takes as attributes."`
	Others          string        `json:"others,omitzero" doc:"What attributes of other names are; left out where there are none."`
	Outputs         []string      `json:"outputs" doc:"The names of its results if several."`
	Results         *int          `json:"results" doc:"The number of its results; null where attributes and shapes decide."`
	Dynamic         bool          `json:"dynamic" doc:"Whether the shapes of its results depend on data."`
	Formulas        []FormulaDoc  `json:"formulas,omitempty" doc:"What it computes for one element; left out where no formula says it."`
	Functions       []FunctionDoc `json:"functions,omitempty" doc:"The functions that a formula may have, for the op that takes one."`
	Implementations []implDoc     `json:"implementations" doc:"The ways to compute it, the one that is taken first where they are as good."`
	AnyOrder        bool          `json:"any_order" doc:"Whether results are written in whatever order of dimensions is asked for."`
	AsInferred      string        `json:"as_inferred,omitzero" doc:"Why results are written only as the op lays them out; left out where some implementation writes other orders."`
}

// implDoc is a way to compute an op.
type implDoc struct {
	Name string `json:"name" doc:"Its name, by which a pin asks for it."`
	Doc  string `json:"doc" doc:"What it is, and which calls it takes."`
}

type operandDoc struct {
	Name      string                      `json:"name" doc:"The name of the operand."`
	Optional  bool                        `json:"optional" doc:"Whether it may be null or left out."`
	Number    bool                        `json:"number" doc:"Whether a plain number will do."`
	Variadic  bool                        `json:"variadic" doc:"Whether it is one or more tensors, the whole of the inputs."`
	Attribute string                      `json:"attribute,omitzero" doc:"The attribute that may stand for it as a number."`
	Overload  string                      `json:"overload,omitzero" doc:"The overload that such a number makes."`
	Index     bool                        `json:"index" doc:"Whether integers in it are places or lengths in another operand."`
	DTypes    document.ListOrNull[string] `json:"dtypes" of:"dtype" doc:"What it may hold; null where no example of the op has it."`
}

type attrDoc struct {
	Name     string   `json:"name" doc:"The name of the attribute."`
	Type     string   `json:"type" doc:"What it is, in words."`
	Required bool     `json:"required" doc:"Whether it must be given."`
	Default  any      `json:"default" doc:"Its value where it is not given, as in graph files; null for none."`
	Choices  []string `json:"choices,omitempty" doc:"The words that it may be; left out where there is no such list."`
	Doc      string   `json:"doc,omitzero" doc:"What it does."`
}

func docOf(o *graph.Op) OpDoc {
	dtypes := dtypesOf(o)
	d := OpDoc{Name: o.Name, Doc: o.Doc, Kind: o.Kind.String(), DTypes: dtypes.main().names(), AsInferred: o.AsInferred,
		Dynamic:  o.Eager != nil,
		Operands: []operandDoc{}, Attributes: []attrDoc{}, Outputs: document.NotNil(o.Outputs)}
	if !o.Many {
		n := max(1, len(o.Outputs))
		d.Results = &n
	}
	if o.Schema.Others != nil {
		d.Others = o.Schema.Others.Doc
	}
	d.Formulas, d.Functions = formulasOf(o), functionsOf(o)
	d.Implementations, d.AnyOrder = []implDoc{}, o.AnyOrder || o.Kind == graph.Follows
	for _, m := range o.Impls {
		d.Implementations = append(d.Implementations, implDoc{m.Name, m.Doc})
	}
	for i, p := range o.Params {
		doc := operandDoc{Name: p.Name, Optional: p.Optional, Number: p.Number, Variadic: p.Variadic,
			Index: p.Below != nil, Attribute: o.NumberAttr(p), Overload: p.Overload}
		if set := dtypes.operands[i]; set != nil {
			doc.DTypes = set.names()
		}
		d.Operands = append(d.Operands, doc)
	}
	for _, f := range o.Schema.Fields {
		doc := attrDoc{Name: f.Name, Type: f.Type, Required: f.Required, Doc: f.Doc,
			Choices: slices.Concat(f.OneOf, f.Words)}
		doc.Default, _ = f.DefaultValue()
		d.Attributes = append(d.Attributes, doc)
	}
	return d
}
