package graphfile

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Schema returns a JSON Schema (2020-12) of graph files, version 1, with the given ops, so that editors
// complete ops and attributes and show their documentation. The schema does not check names of values, cycles or
// inference.
//
// The schema of a node depends on its op. It has the names and the number of the operands, and the type, the default
// and the permitted values of each attribute. Any attribute may be a [graph.ValueRef]. The schemas of values, nodes and
// ops are definitions that refer to each other:
//
//	graph ("#") -> inputs, constants, outputs -> name, dtype, dim, data, ...
//	            -> nodes -> node -> "op.relu", "op.conv2d", ... -> number, scalar, value, and "#" for subgraphs
func Schema(ops []*graph.Op) ([]byte, error) {
	for _, op := range ops {
		if op == nil || op.Schema == nil {
			return nil, errors.New("an op is nil, or not made by Define")
		}
	}
	defs := object{
		"name":          object{"type": "string", "minLength": 1},
		"dtype":         object{"enum": dtypeNames()},
		"memory_format": object{"enum": []string{"contiguous", "channels_last", "channels_last_3d"}},
		"order": object{"type": "array", "items": object{"type": "integer", "minimum": 0}, "uniqueItems": true,
			"description": "the dimensions from the slowest to the fastest"},
		"dim": anyOf(object{"type": "integer", "minimum": 0},
			object{"$ref": "#/$defs/name", "description": "a symbol or an expression"}),
		"number":   numberSchema,
		"scalar":   anyOf(object{"type": []string{"number", "boolean"}}, specialNumber, pairSchema, complexTextSchema),
		"data":     anyOf(object{"type": []string{"number", "boolean"}}, specialNumber, arrayOf(ref("data"))),
		"texts":    anyOf(object{"type": "string"}, arrayOf(ref("texts"))),
		"value":    closedObject(object{"value": withDoc(ref("name"), "the value whose content is the attribute")}, "value"),
		"input":    inputSchema(),
		"constant": constantSchema(),
		"node":     nodeSchema(ops),
		"output":   outputSchema(),
	}
	for _, op := range ops {
		defs["op."+op.Name] = opSchema(op)
	}
	root := fileSchema()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "graphrun graph file, version 1"
	root["$defs"] = defs
	return json.MarshalIndent(root, "", " ")
}

// fileSchema describes the top-level object of a file, or a subgraph.
func fileSchema() object {
	return closedObject(object{
		"version": object{"const": 1},
		"name":    object{"type": "string"},
		"symbols": object{
			"description":   "bounds and hints of symbolic dimensions",
			"type":          "object",
			"propertyNames": ref("name"),
			"additionalProperties": closedObject(object{
				"min": object{"type": "integer", "minimum": 0},
				"max": object{"type": "integer", "minimum": 0},
				"hint": object{"type": "integer", "minimum": 0,
					"description": "the size that is assumed if none is given"},
			}),
		},
		"strings": withDoc(object{"type": "array", "items": object{"type": "string"}, "uniqueItems": true},
			"the strings that have the codes 0, 1, ... in tensors of strings"),
		"inputs":    arrayOf(ref("input")),
		"constants": arrayOf(ref("constant")),
		"nodes":     arrayOf(ref("node")),
		"outputs":   arrayOf(ref("output")),
	}, "version", "inputs", "nodes", "outputs")
}

// object is a JSON object. Its keys are sorted in the output.
type object map[string]any

// The schemas of numbers.
var (
	// specialNumber describes NaN and infinities, which JSON writes as strings.
	specialNumber = anyOf(object{"enum": []string{"NaN", "Infinity", "-Infinity"}}, object{"type": "string",
		"pattern":     `^([nN][aA][nN]|[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?)$`,
		"description": "NaN or an infinity in another spelling"})
	numberSchema = anyOf(object{"type": "number"}, specialNumber)
	pairSchema   = object{"type": "array", "items": ref("number"), "minItems": 2, "maxItems": 2,
		"description": "a complex number: real and imaginary part"}
)

// complexTextSchema is a complex number in Python's notation.
var complexTextSchema = object{"type": "string",
	"pattern": `^\(?([+-]?[0-9.]+([eE][+-]?[0-9]+)?)?[+-]?[0-9.]+([eE][+-]?[0-9]+)?j\)?$`}

// symbolText describes a symbol, or an expression over symbols, in place of a number.
var symbolText = object{"$ref": "#/$defs/name", "description": "a symbol, or an expression over symbols"}

// sizeSchema describes a size: an integer, a symbol or an expression.
var sizeSchema = anyOf(object{"type": "integer"}, symbolText)

// ref returns a reference to a definition under $defs.
func ref(name string) object { return object{"$ref": "#/$defs/" + name} }

// anyOf describes a value that matches at least one of the alternatives.
func anyOf(alternatives ...object) object { return object{"anyOf": alternatives} }

// arrayOf describes a list.
func arrayOf(item object) object { return object{"type": "array", "items": item} }

// withDoc adds a description to a schema, and returns the schema.
func withDoc(schema object, doc string) object {
	if doc != "" {
		schema["description"] = doc
	}
	return schema
}

// closedObject describes an object without other members.
func closedObject(members object, required ...string) object {
	schema := object{"type": "object", "properties": members, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// dtypeNames returns the names of all dtypes.
func dtypeNames() []string {
	var names []string
	for _, dtype := range tensor.DTypes() {
		names = append(names, dtype.String())
	}
	return names
}

// inputSchema describes an input.
func inputSchema() object {
	members := tensorMembers()
	members["shape"] = arrayOf(ref("dim"))
	schema := closedObject(members, "name", "dtype", "shape")
	schema["not"] = conflictingLayouts
	return schema
}

// constantSchema describes a constant, whose data is in the graph file or in another file.
func constantSchema() object {
	members := tensorMembers()
	members["shape"] = arrayOf(object{"type": "integer", "minimum": 0})
	members["data"] = withDoc(anyOf(ref("data"), ref("texts")), "elements in row-major order, nested or flat")
	members["file"] = object{"type": "string", "minLength": 1, "pattern": `\.(npy|npz|safetensors|NPY|NPZ|SAFETENSORS)$`,
		"description": "a file in the folder of the graph file"}
	members["key"] = object{"type": "string", "description": "name of the array in the file"}
	schema := closedObject(members, "name", "dtype", "shape")
	schema["not"] = conflictingLayouts
	schema["oneOf"] = []object{{"required": []string{"data"}}, {"required": []string{"file"}}}
	schema["dependentRequired"] = object{"key": []string{"file"}}
	return schema
}

// tensorMembers are the common members of inputs and constants.
func tensorMembers() object {
	return object{
		"name":  ref("name"),
		"dtype": withDoc(anyOf(ref("dtype"), object{"const": textType}), "string: in memory, int64 codes of strings"),
		"strides": withDoc(arrayOf(sizeSchema),
			"in elements; if absent, the layout is row-major, or that of memory_format or order"),
		"offset":        withDoc(anyOf(object{"type": "integer", "minimum": 0}, ref("name")), "in elements"),
		"memory_format": ref("memory_format"),
		"order":         ref("order"),
	}
}

// conflictingLayouts matches a declaration that gives the layout twice, which is invalid.
var conflictingLayouts = anyOf(object{"required": []string{"strides", "memory_format"}},
	object{"required": []string{"strides", "order"}}, formatAndOrder)

// formatAndOrder matches a declaration that has both memory_format and order.
var formatAndOrder = object{"required": []string{"memory_format", "order"}}

// outputSchema describes an output: the name of a value, or an object with the value and its layout.
func outputSchema() object {
	full := closedObject(object{"value": ref("name"), "name": object{"type": "string"},
		"dtype":         withDoc(object{"const": textType}, "the elements are strings; other dtypes are inferred"),
		"memory_format": ref("memory_format"), "order": ref("order")}, "value")
	full["not"] = formatAndOrder
	return anyOf(ref("name"), full)
}

// nodeSchema selects the schema of a node by its op. It also lists every member independently of the op. Thus editors
// can complete the names of members before the op is known.
func nodeSchema(ops []*graph.Op) object {
	var names, docs []string
	var cases []object
	for _, op := range ops {
		names, docs = append(names, op.Name), append(docs, firstLine(op.Doc))
		opMatches := object{"required": []string{"op"}, "properties": object{"op": object{"const": op.Name}}}
		cases = append(cases, object{"if": opMatches, "then": ref("op." + op.Name)})
	}
	schema := closedObject(object{
		"name":          withDoc(ref("name"), "the name of the node, and of its value if outputs is absent"),
		"op":            object{"enum": names, "enumDescriptions": docs},
		"inputs":        object{"type": "array"},
		"attrs":         object{"type": []string{"object", "null"}},
		"outputs":       object{"type": "array", "items": ref("name"), "minItems": 1},
		"memory_format": withDoc(ref("memory_format"), "the layout that the output must have"),
		"order":         withDoc(ref("order"), "the layout that the output must have"),
		"impl":          withDoc(object{"type": "string", "minLength": 1}, "the implementation that must compute it"),
		"device":        withDoc(object{"type": "string", "minLength": 1}, "the device that must compute it, such as cpu"),
	}, "name", "op")
	schema["not"] = formatAndOrder
	if len(cases) > 0 {
		schema["allOf"] = cases
	}
	return schema
}

// firstLine returns the text up to the first line break.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// opSchema describes the nodes of one op.
func opSchema(op *graph.Op) object {
	attrs, requiresAttrs := attrsSchema(op)
	inputs, minInputs := inputsSchema(op)
	members := object{"inputs": inputs, "attrs": attrs}
	if len(op.Impls) > 0 {
		var names []string
		for _, impl := range op.Impls {
			names = append(names, impl.Name)
		}
		members["impl"] = object{"enum": names}
	}
	node := object{"description": op.Doc, "properties": members}
	var required []string
	if minInputs > 0 {
		required = append(required, "inputs")
	}
	if requiresAttrs {
		required = append(required, "attrs")
	}
	if required != nil {
		node["required"] = required
	}
	if alternatives := numberAlternatives(op, minInputs); alternatives != nil {
		node["anyOf"] = alternatives
	}
	return node
}

// attrsSchema describes the member "attrs" of the nodes of an op. hasRequired means that an attribute must be given.
func attrsSchema(op *graph.Op) (schema object, hasRequired bool) {
	attrs := object{}
	var required []string
	for _, field := range op.Schema.Fields {
		attrs[field.Name] = attrSchema(field)
		if field.Required {
			required = append(required, field.Name)
		}
	}
	for _, param := range op.Params {
		if name := op.NumberAttr(param); name != "" {
			attrs[name] = withDoc(anyOf(ref("scalar"), ref("value")), "operand "+param.Name+", given as a number")
		}
	}
	schema = closedObject(attrs, required...)
	if op.Schema.Additional != nil {
		schema["additionalProperties"] = attrSchema(*op.Schema.Additional)
	}
	if required == nil {
		schema["type"] = []string{"object", "null"}
	}
	return schema, required != nil
}

// inputsSchema describes the list of operands, and returns its minimum length. The list may end with extra nulls, which
// are ignored. If an operand may be a number, the list may lack it, because it can also be given as an attribute.
func inputsSchema(op *graph.Op) (object, int) {
	minInputs := 0
	var positions []object
	var restSchema any = object{"type": "null"}
	for _, param := range op.Params {
		if param.Variadic {
			restSchema = operandSchema(param)
		} else {
			positions = append(positions, operandSchema(param))
		}
		if !param.Optional && op.NumberAttr(param) == "" {
			minInputs++
		}
	}
	schema := object{"type": "array", "items": restSchema}
	if positions != nil {
		schema["prefixItems"] = positions
	}
	if minInputs > 0 {
		schema["minItems"] = minInputs
	}
	return schema, minInputs
}

// operandSchema describes one operand: the name of a value or, where permitted, null or a number.
func operandSchema(param graph.Param) object {
	types := []string{"string"}
	if param.Optional {
		types = append(types, "null")
	}
	if !param.AcceptsNumber {
		return object{"type": types, "description": param.Name}
	}
	types = append(types, "number", "boolean")
	numberForm := closedObject(object{"number": ref("scalar")}, "number")
	return withDoc(anyOf(object{"type": types}, numberForm),
		param.Name+", a value or a plain number; \"Infinity\", \"-Infinity\" and \"NaN\" are numbers unless a value has "+
			"that name")
}

// numberAlternatives returns the alternatives (anyOf) of an op with required operands that may be given as numbers, or
// nil for other ops. Each such operand is either in the list of inputs or an attribute, and each combination of these
// choices is an alternative. minInputs is the number of required operands that cannot be numbers.
func numberAlternatives(op *graph.Op, minInputs int) []object {
	combinations := []numberCombination{{minInputs: minInputs}}
	for _, param := range op.Params {
		name := op.NumberAttr(param)
		if param.Optional || name == "" {
			continue
		}
		// Each combination becomes two: combination i gets one more input, and a new combination with the attribute is
		// appended. The loop does not visit new combinations.
		for i, combined := range combinations {
			combinations = append(combinations,
				numberCombination{combined.minInputs, append(slices.Clone(combined.attrs), name)})
			combinations[i].minInputs++
		}
	}
	if len(combinations) == 1 {
		return nil
	}
	var alternatives []object
	for _, combination := range combinations {
		alternatives = append(alternatives, combination.schema())
	}
	return alternatives
}

// numberCombination is a choice, for each operand that may be a number, between the list of inputs and an attribute.
type numberCombination struct {
	minInputs int      // number of required operands in the list of inputs
	attrs     []string // attributes that give the other operands
}

// schema describes the nodes that give their operands by the combination.
func (c numberCombination) schema() object {
	members, required := object{}, []string{}
	if c.minInputs > 0 {
		members["inputs"] = object{"minItems": c.minInputs}
		required = append(required, "inputs")
	}
	if len(c.attrs) > 0 {
		members["attrs"] = object{"type": "object", "required": c.attrs}
		required = append(required, "attrs")
	}
	alternative := object{"properties": members}
	if len(required) > 0 {
		alternative["required"] = required
	}
	return alternative
}

// attrSchema describes an attribute.
func attrSchema(field graph.Field) object {
	if field.Type == "graph" {
		return object{"$ref": "#", "description": field.Doc}
	}
	typeNames := strings.Split(strings.TrimSuffix(field.Type, "?"), "|")
	if field.Words != nil { // words may replace the integers, as in int[]|same|valid
		typeNames = typeNames[:1] // the other names are words, which are added below
	}
	var alternatives []object
	for _, name := range typeNames {
		alternative := typeSchema(field, name)
		if all, ok := alternative["anyOf"].([]object); ok {
			alternatives = append(alternatives, all...)
		} else {
			alternatives = append(alternatives, alternative)
		}
	}
	alternatives = append(alternatives, ref("value"))
	if field.Words != nil {
		alternatives = append(alternatives, object{"enum": field.Words})
	}
	if strings.HasSuffix(field.Type, "?") || field.Default == "none" {
		alternatives = append(alternatives, object{"type": "null"})
	}
	schema := withDoc(anyOf(alternatives...), field.Doc)
	if defaultValue, ok := field.DefaultValue(); ok {
		schema["default"] = defaultValue
	}
	return schema
}

// typeSchema describes the values of a type by its name in [graph.Field.Type].
func typeSchema(field graph.Field, name string) object {
	if item, isList := strings.CutSuffix(name, "[]"); isList {
		single := typeSchema(field, item)
		list := arrayOf(single)
		if field.Len > 0 {
			// As in PyTorch, a list of one number means field.Len equal numbers.
			lengths := []object{{"minItems": field.Len, "maxItems": field.Len}, {"minItems": 1, "maxItems": 1}}
			if field.Default == "none" {
				lengths = append(lengths, object{"maxItems": 0})
			}
			list["anyOf"] = lengths
		}
		return anyOf(list, single)
	}
	switch name {
	case "int":
		if field.AnyInt {
			return sizeSchema
		}
		// No size, stride or distance exceeds MaxBytes, the greatest memory of a value.
		return anyOf(object{"type": "integer", "minimum": -tensor.MaxBytes, "maximum": tensor.MaxBytes}, symbolText)
	case "float":
		return ref("number")
	case "number":
		return anyOf(ref("scalar"), symbolText)
	case "bool":
		return object{"type": "boolean"}
	case "dtype":
		return ref("dtype")
	case "memory_format":
		return object{"enum": []string{"contiguous", "channels_last", "channels_last_3d", "preserve"}}
	}
	if field.OneOf != nil { // OneOf lists the permitted strings
		return object{"enum": field.OneOf}
	}
	return object{"type": "string"} // "string", or "condition": a condition on sizes, written as text
}
