package catalogue

import (
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
)

// showOp prints the page of an op: its signature, documentation and layout, its inputs, attributes, formulas,
// implementations and outputs. For example, the signature of softmax is softmax(self, dim=..., dtype=none).
func showOp(w io.Writer, display term.Display, op *graph.Op) {
	dtypes := dtypesOf(op)
	width := display.ProseWidth()
	head := format.Wrap(op.Name+signature(op), width)
	fmt.Fprintf(w, "%s%s\n\n%s\n", display.Paint(term.Strong, op.Name), strings.TrimPrefix(head, op.Name),
		format.Wrap(op.Doc, width))
	fmt.Fprintf(w, "\n%s\n", format.Wrap("Layout: "+layoutText(op), width))
	if len(op.Params) > 0 {
		showInputs(w, display, op, dtypes)
	}
	if len(op.Schema.Fields) > 0 {
		showAttributes(w, display, op, dtypes)
	}
	showFormulas(w, display, op)
	if len(op.Impls) > 1 {
		showImpls(w, display, op)
	}
	switch {
	case op.VariadicResults:
		fmt.Fprintln(w, "\nOutputs: their number depends on attributes and shapes; name them under \"outputs\".")
	case len(op.Outputs) > 1:
		fmt.Fprintf(w, "\nOutputs: %s; name them under \"outputs\".\n", strings.Join(op.Outputs, ", "))
	}
}

// signature returns the operands and attributes of an op as the arguments of a call.
func signature(op *graph.Op) string {
	var parts []string
	for _, param := range op.Params {
		text := param.Name
		switch {
		case param.Variadic:
			text += "..."
		case param.Optional:
			text += "?"
		}
		parts = append(parts, text)
	}
	for _, f := range op.Schema.Fields {
		parts = append(parts, f.Name+"="+attrDefault(f))
	}
	if op.Schema.Additional != nil {
		parts = append(parts, "NAME="+op.Schema.Additional.Type)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// attrDefault returns the default of an attribute as text; "..." for a required attribute.
func attrDefault(f graph.Field) string {
	switch {
	case f.Required:
		return "..."
	case f.Default == "": // an empty string
		return `""`
	}
	return f.Default
}

// phraseWidth is the minimum width, in characters, of the columns for the kind of an input and the values of an
// attribute. On very narrow displays the columns are narrower.
const phraseWidth = 24

// showInputs prints the table of the operands of an op.
func showInputs(w io.Writer, display term.Display, op *graph.Op, dtypes supportedDTypes) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Inputs"))
	table := term.NewTable(term.UntruncatedCol(""), term.PhraseCol("", phraseWidth), term.ProseCol(""))
	for i, param := range op.Params {
		table.Add("  "+param.Name, paramText(op, param), dtypes.operand(i))
	}
	table.Write(w, display)
}

// showAttributes prints the table of the attributes of an op.
func showAttributes(w io.Writer, display term.Display, op *graph.Op, dtypes supportedDTypes) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Attributes"))
	table := term.NewTable(term.UntruncatedCol(""), term.UntruncatedCol(""), term.PhraseCol("", phraseWidth),
		term.ProseCol(""))
	for _, field := range op.Schema.Fields {
		table.Add("  "+field.Name, field.Type, attrText(field), attrNote(field, dtypes))
	}
	if others := op.Schema.Additional; others != nil {
		table.Add("  NAME", others.Type, "any other name", others.Doc)
	}
	table.Write(w, display)
}

// showImpls prints the table of the implementations of an op.
func showImpls(w io.Writer, display term.Display, op *graph.Op) {
	fmt.Fprintln(w, "\n"+display.Paint(term.Strong, "Implementations"))
	table := term.NewTable(term.UntruncatedCol(""), term.ProseCol(""))
	for _, impl := range op.Impls {
		table.Add("  "+impl.Name, impl.Doc)
	}
	table.Write(w, display)
}

// layoutText describes which layouts the op reads and writes.
func layoutText(op *graph.Op) string {
	switch op.Kind {
	case graph.FollowsOperands:
		return "follows: the result is laid out by PyTorch's permutation rule"
	case graph.View:
		return "view: strides are mapped and storage is shared where possible"
	case graph.RequiresLayout:
		return "requires: reads some layouts; others are copied first"
	}
	if op.WritesAnyDenseLayout {
		return "own: reads any layout; the result has a layout of its own, or any requested order"
	}
	if op.FixedLayoutReason != "" {
		return "own: reads any layout; the result has a layout of its own (" + op.FixedLayoutReason + ")"
	}
	return "own: reads any layout; the result has a layout of its own"
}

// paramText says whether an operand is a tensor or a number, and whether it is optional or repeated.
func paramText(op *graph.Op, param graph.Param) string {
	text := "tensor"
	switch {
	case param.Variadic:
		text = "one or more tensors"
		if param.AcceptsNumber {
			text += " or numbers"
		}
		return text
	case param.AcceptsNumber:
		text = "tensor or number"
		if name := op.NumberAttr(param); name != "" {
			text += " (or attribute " + name + ")"
		}
	}
	if param.Optional {
		text += ", may be null or left out"
	}
	if param.Overload != "" {
		text += ": the overload " + op.Name + "." + param.Overload
	}
	return text
}

// attrText returns the default and the allowed values of an attribute.
func attrText(f graph.Field) string {
	text := "default " + attrDefault(f)
	if f.Required {
		text = "required"
	}
	if f.OneOf != nil {
		text += ", one of " + strings.Join(f.OneOf, " ")
	}
	if f.AnyInt {
		text += ", any int64"
	}
	return text
}

// attrNote returns the documentation of an attribute. For the attribute dtype, it adds the supported dtypes.
func attrNote(f graph.Field, supported supportedDTypes) string {
	if f.Name != "dtype" || supported.attrValues == nil {
		return f.Doc
	}
	return strings.TrimSpace(f.Doc + " (" + supported.attrValues.String() + ")")
}
