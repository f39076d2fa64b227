package catalogue

import (
	"fmt"
	"io"
	"strings"

	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/cli/internal/term"
	"github.com/graphrun/graphrun/graph"
)

// signature returns the operands and attributes of an op as the arguments of a call.
func signature(o *graph.Op) string {
	var parts []string
	for _, p := range o.Params {
		s := p.Name
		switch {
		case p.Variadic:
			s += "..."
		case p.Optional:
			s += "?"
		}
		parts = append(parts, s)
	}
	for _, f := range o.Schema.Fields {
		parts = append(parts, f.Name+"="+attrDefault(f))
	}
	if o.Schema.Others != nil {
		parts = append(parts, "NAME="+o.Schema.Others.Type)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func attrDefault(f graph.Field) string {
	switch {
	case f.Required:
		return "..."
	case f.Default == "":
		return `""`
	}
	return f.Default
}

func describeOp(w io.Writer, show term.Display, o *graph.Op) {
	dtypes := dtypesOf(o)
	width := show.ProseWidth()
	fmt.Fprintf(w, "%s\n\n%s\n", format.Wrap(show.Paint(term.Strong, o.Name)+signature(o), width),
		format.Wrap(o.Doc, width))
	fmt.Fprintf(w, "\n%s\n", format.Wrap("Layout: "+layoutText(o), width))
	if len(o.Params) > 0 {
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Inputs"))
		t := term.NewTable(term.WholeCol(""), term.PhraseCol("", 24), term.ProseCol(""))
		for i, p := range o.Params {
			t.Add("  "+p.Name, paramText(o, p), dtypes.operand(i))
		}
		t.Write(w, show)
	}
	if len(o.Schema.Fields) > 0 {
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Attributes"))
		t := term.NewTable(term.WholeCol(""), term.WholeCol(""), term.PhraseCol("", 24), term.ProseCol(""))
		for _, f := range o.Schema.Fields {
			t.Add("  "+f.Name, f.Type, attrText(f), attrNote(f, dtypes))
		}
		if f := o.Schema.Others; f != nil {
			t.Add("  NAME", f.Type, "any other name", f.Doc)
		}
		t.Write(w, show)
	}
	describeFormulas(w, show, o)
	if len(o.Impls) > 1 {
		fmt.Fprintln(w, "\n"+show.Paint(term.Strong, "Implementations"))
		t := term.NewTable(term.WholeCol(""), term.ProseCol(""))
		for _, m := range o.Impls {
			t.Add("  "+m.Name, m.Doc)
		}
		t.Write(w, show)
	}
	switch {
	case o.Many:
		fmt.Fprintln(w, "\nOutputs: their number depends on attributes and shapes; name them under \"outputs\".")
	case len(o.Outputs) > 1:
		fmt.Fprintf(w, "\nOutputs: %s; name them under \"outputs\".\n", strings.Join(o.Outputs, ", "))
	}
}

func layoutText(o *graph.Op) string {
	switch o.Kind {
	case graph.FollowsOperands:
		return "follows: the result is laid out by PyTorch's permutation rule"
	case graph.View:
		return "view: strides are mapped and storage is shared where possible"
	case graph.RequiresLayout:
		return "requires: reads some layouts; others are copied first"
	}
	if o.AnyOrder {
		return "own: reads any layout; the result has a layout of its own, or any requested order"
	}
	if o.FixedLayoutReason != "" {
		return "own: reads any layout; the result has a layout of its own (" + o.FixedLayoutReason + ")"
	}
	return "own: reads any layout; the result has a layout of its own"
}

func paramText(o *graph.Op, p graph.Param) string {
	s := "tensor"
	switch {
	case p.Variadic:
		s = "one or more tensors"
		if p.Number {
			s += " or numbers"
		}
		return s
	case p.Number:
		s = "tensor or number"
		if name := o.NumberAttr(p); name != "" {
			s += " (or attribute " + name + ")"
		}
	}
	if p.Optional {
		s += ", may be null or left out"
	}
	if p.Overload != "" {
		s += ": the overload " + o.Name + "." + p.Overload
	}
	return s
}

func attrText(f graph.Field) string {
	s := "default " + attrDefault(f)
	if f.Required {
		s = "required"
	}
	if f.OneOf != nil {
		s += ", one of " + strings.Join(f.OneOf, " ")
	}
	if f.AnyInt {
		s += ", any int64"
	}
	return s
}

func attrNote(f graph.Field, s dtypes) string {
	if f.Name != "dtype" || s.attr == nil {
		return f.Doc
	}
	return strings.TrimSpace(f.Doc + " (" + s.attr.String() + ")")
}
