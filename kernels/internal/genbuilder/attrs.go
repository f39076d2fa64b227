package main

import (
	"bytes"
	"fmt"
	"go/token"
	"slices"
	"strings"
	"unicode"

	"github.com/graphrun/graphrun/graph"
)

// This file writes the types of operands and attributes, the structs of optional attributes, and the documentation of
// the generated functions. For example, it writes these parts of the generated code (shortened):
//
//	type Conv1dAttrs struct {
//		// step of the window (default 1)
//		Stride []int `attr:"stride"`
//		// zeros at both ends, or [begin, end]; ... (default 0)
//		Padding []int `attr:"padding"`
//		// PaddingWord takes the place of Padding.
//		PaddingWord Conv1dPaddingWord `attr:"padding"`
//	}
//
//	// Conv1d is the op conv1d.
//	//
//	// May be nil: bias.

// operandConstraints are the type constraints that package op declares. A parameter with such a constraint makes the
// generated function generic.
var operandConstraints = []string{"Operand", "Optional", "Int", "Ints", "IntOrInts"}

// operandType returns the Go type or the constraint of an operand.
func operandType(operand graph.Param) string {
	switch {
	case operand.Variadic:
		return "[]*graph.Value"
	case operand.AcceptsNumber && operand.Optional:
		return "Optional"
	case operand.AcceptsNumber:
		return "Operand"
	}
	return "*graph.Value"
}

// requiredType returns the Go type or the constraint of a required attribute. A parameter with a constraint also
// accepts values of the graph.
func requiredType(op *graph.Op, attribute graph.Field) string {
	switch attribute.Type {
	case "int":
		return "Int"
	case "int[]":
		return "Ints"
	case "int|int[]":
		return "IntOrInts"
	case "number":
		return "Operand"
	}
	typ, _ := fieldType(op, attribute)
	return typ
}

// fieldType returns the Go type of an optional attribute as a field of the Attrs struct. The zero value of the field
// stands for the attribute's default. needsDefault reports whether the documentation must state the default, because
// the default differs from Go's zero value. The type of an attribute in a schema is, for example, int, int[] (a list),
// int|int[] (either) or int? (may be null).
func fieldType(op *graph.Op, attribute graph.Field) (typ string, needsDefault bool) {
	name, isOptional := strings.CutSuffix(attribute.Type, "?")
	name, _, _ = strings.Cut(name, "|")
	if item, isList := strings.CutSuffix(name, "[]"); isList {
		return "[]" + goTypes[item], attribute.Default != "none"
	}
	switch {
	case name == "graph":
		return "*graph.Graph", false
	case name == "string" && attribute.OneOf != nil:
		return camel(op.Name) + camel(attribute.Name) + "Word", true
	case name == "string", name == "dtype", name == "memory_format", name == "number":
		return goTypes[name], attribute.Default != "none"
	case isOptional: // nil stands for null
		return "*" + goTypes[name], false
	}
	defaultIsZero := attribute.Default == "0" || attribute.Default == "false" || attribute.Default == "none" ||
		attribute.Required
	if !defaultIsZero { // nil stands for the default
		return "*" + goTypes[name], true
	}
	return goTypes[name], false
}

// goTypes maps the attribute types of a schema to Go types.
var goTypes = map[string]string{"int": "int", "float": "float64", "bool": "bool", "string": "string",
	"number": "tensor.Scalar", "dtype": "tensor.DType", "memory_format": "tensor.MemoryFormat"}

// stringType is a generated string type with a constant for each string that an attribute accepts.
type stringType struct {
	name, doc string      // name; documentation without the name
	constants [][2]string // name and value of each constant
}

// stringTypes returns the string types of the attributes that accept only certain words.
func (f *function) stringTypes() []stringType {
	var list []stringType
	for _, attribute := range f.op.Schema.Fields {
		prefix := camel(f.op.Name) + camel(attribute.Name)
		words := stringType{name: prefix + "Word", doc: fmt.Sprintf("is the attribute %s of [%s]", attribute.Name, f.name)}
		values := attribute.OneOf
		if attribute.Words != nil {
			words.doc = fmt.Sprintf("is a word in place of the attribute %s of [%s]", attribute.Name, f.name)
			values = attribute.Words
		}
		if values == nil {
			continue
		}
		for _, word := range values {
			constant := strings.ToLower(word)
			if magnitude, isNegative := strings.CutPrefix(constant, "-"); isNegative {
				constant = "minus_" + magnitude
			}
			words.constants = append(words.constants, [2]string{prefix + camel(constant), word})
		}
		list = append(list, words)
	}
	return list
}

// writeStringTypes writes the string types and their constants.
func (f *function) writeStringTypes(out *bytes.Buffer) {
	for _, words := range f.stringTypes() {
		fmt.Fprintf(out, "\n// %s %s.\ntype %s string\n\n// The words that %s takes.\nconst (\n", words.name, words.doc,
			words.name, words.name)
		for _, constant := range words.constants {
			fmt.Fprintf(out, "\t%s %s = %q\n", constant[0], words.name, constant[1])
		}
		out.WriteString(")\n")
	}
}

// writeStruct writes the struct of the optional attributes.
func (f *function) writeStruct(out *bytes.Buffer) {
	if !f.hasStruct() {
		return
	}
	name := f.structName()
	fmt.Fprintf(out, "\n// %s are the optional attributes of [%s].\ntype %s struct {\n", name, f.name, name)
	for _, attribute := range f.optional {
		typ, needsDefault := fieldType(f.op, attribute)
		text := strings.Join(strings.Fields(attribute.Doc), " ")
		if needsDefault && attribute.Default != "" {
			text += fmt.Sprintf(" (default %s)", attribute.Default)
		}
		if text = strings.TrimSpace(text); text != "" {
			writeWrapped(out, "\t", "", text)
		}
		fmt.Fprintf(out, "\t%s %s `attr:%q`\n", camel(attribute.Name), typ, attribute.Name)
		if attribute.Words != nil {
			name := camel(attribute.Name) + "Word"
			typ := camel(f.op.Name) + name
			fmt.Fprintf(out, "\t// %s takes the place of %s.\n\t%s %s `attr:%q`\n", name, camel(attribute.Name), name, typ,
				attribute.Name)
		}
	}
	if additional := f.op.Schema.Additional; additional != nil {
		writeWrapped(out, "\t", "", "Numbers has further attributes by name: "+additional.Doc+".")
		out.WriteString("\tNumbers map[string]tensor.Scalar `attr:\"*\"`\n")
	}
	if slices.ContainsFunc(f.optional, isComputable) {
		out.WriteString("\t// Values maps names of attributes, as in aten, to values of the graph. A run computes these " +
			"attributes.\n" +
			"\tValues map[string]*graph.Value\n")
	}
	out.WriteString("}\n")
}

// isComputable reports whether a graph may compute an attribute: a number or a list of numbers.
func isComputable(attribute graph.Field) bool {
	return strings.HasPrefix(attribute.Type, "int") || strings.HasPrefix(attribute.Type, "float") ||
		strings.HasPrefix(attribute.Type, "number")
}

// writeDoc writes the documentation of the op, its required attributes and its optional operands.
func (f *function) writeDoc(out *bytes.Buffer) {
	if f.overload != "" {
		plainName := camel(f.op.Name)
		fmt.Fprintf(out, "\n// %s is the op %s with the operand %s; see [%s].\n", f.name, f.op.Name, f.overload, plainName)
		return
	}
	fmt.Fprintf(out, "\n// %s is the op %s.\n//\n", f.name, f.op.Name)
	for _, line := range strings.Split(strings.TrimSpace(f.op.Doc), "\n") {
		writeWrapped(out, "", "", strings.TrimSpace(line))
	}
	f.writeNilable(out)
	f.writeRequiredAttrs(out)
}

// writeNilable writes the names of the parameters that may be nil.
func (f *function) writeNilable(out *bytes.Buffer) {
	var names []string
	for _, parameter := range f.params {
		if parameter.isNilable {
			names = append(names, parameter.name)
		}
	}
	if names != nil {
		writeWrapped(out, "", "", "\n") // an empty comment line
		writeWrapped(out, "", "", "May be nil: "+strings.Join(names, ", ")+".")
	}
}

// writeRequiredAttrs writes a list of the required attributes that have documentation.
func (f *function) writeRequiredAttrs(out *bytes.Buffer) {
	var lines []string
	for _, parameter := range f.params {
		if parameter.attr == "" {
			continue
		}
		i := slices.IndexFunc(f.op.Schema.Fields, func(field graph.Field) bool { return field.Name == parameter.attr })
		if doc := strings.Fields(f.op.Schema.Fields[i].Doc); len(doc) > 0 {
			lines = append(lines, parameter.name+": "+strings.Join(doc, " "))
		}
	}
	if lines != nil {
		out.WriteString("//\n// Attributes:\n//\n")
		for _, line := range lines {
			writeWrapped(out, "", "  - ", line)
		}
	}
}

// writeWrapped writes text as comment lines of limited width. mark precedes the text in the first line. Later lines
// have spaces in place of the mark.
func writeWrapped(out *bytes.Buffer, indent, mark, text string) {
	const width = 110
	line := mark
	for _, word := range strings.Fields(text) {
		if len(line) > len(mark) && len(line)+len(word) > width {
			fmt.Fprintln(out, indent+"// "+strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(mark))
		}
		line += word + " "
	}
	fmt.Fprintln(out, indent+strings.TrimRight("// "+line, " "))
}

// camel converts the name of an op to a Go name: batch_norm to BatchNorm, conv2d to Conv2d, dtype to DType.
func camel(name string) string {
	var goName strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '.' || r == ':' }) {
		if word == "dtype" {
			word = "DType"
		}
		goName.WriteString(string(unicode.ToUpper(rune(word[0]))) + word[1:])
	}
	return goName.String()
}

// reservedNames are the identifiers that the bodies and types of generated functions use. A parameter must not hide
// them.
var reservedNames = []string{"any", "made", "nil", "given", "with", "node", "nodeIn", "overloaded", "graph", "tensor"}

// parameterName converts the name of an operand to the name of a Go parameter: running_mean to runningMean.
func parameterName(name string) string {
	parameter := camel(name)
	if parameter = string(unicode.ToLower(rune(parameter[0]))) + parameter[1:]; parameter == "dType" {
		parameter = "dtype"
	}
	switch {
	case token.IsKeyword(parameter), slices.Contains(reservedNames, parameter):
		parameter += "_"
	}
	return parameter
}
