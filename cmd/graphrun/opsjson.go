package main

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
)

// opDoc is the page of an op as JSON.
type opDoc struct {
	Name       string       `json:"name"`
	Doc        string       `json:"doc"`
	Kind       string       `json:"kind"`
	DTypes     []string     `json:"dtypes"` // of the operand that serves the most
	Operands   []operandDoc `json:"operands"`
	Attributes []attrDoc    `json:"attributes"`
	Outputs    []string     `json:"outputs"` // the names of several results, empty for one
	Results    *int         `json:"results"` // null where attributes and shapes decide
	Dynamic    bool         `json:"dynamic"` // whether shapes depend on data
	// Implementations are the ways to compute the op, the one that is taken first where they are as
	// good; AnyOrder says that results are written in whatever order is asked for.
	Implementations []implDoc `json:"implementations"`
	AnyOrder        bool      `json:"any_order"`
}

type implDoc struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

type operandDoc struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"`
	Number   bool   `json:"number"`   // a plain number will do
	Variadic bool   `json:"variadic"` // one or more, the whole of the inputs
	// Attribute may stand for the operand where it is a number, and Overload is aten's name
	// of the overload that it makes.
	Attribute string   `json:"attribute,omitempty"`
	Overload  string   `json:"overload,omitempty"`
	Index     bool     `json:"index"`  // integers in it are places or lengths in another operand
	DTypes    []string `json:"dtypes"` // null where no example of the op has it
}

type attrDoc struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Required bool     `json:"required"`
	Default  any      `json:"default"` // as a graph file has it; null for none
	Choices  []string `json:"choices,omitempty"`
	Doc      string   `json:"doc,omitempty"`
}

func docOf(o *graph.Op) opDoc {
	dtypes := servedBy(o)
	d := opDoc{Name: o.Name, Doc: o.Doc, Kind: o.Kind.String(), DTypes: dtypes.main().names(), Dynamic: o.Eager != nil,
		Operands: []operandDoc{}, Attributes: []attrDoc{}, Outputs: filled(o.Outputs)}
	if !o.Many {
		n := max(1, len(o.Outputs))
		d.Results = &n
	}
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
