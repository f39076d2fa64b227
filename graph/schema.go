package graph

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Schema describes the attributes of an op: the fields of a Go struct with tags such as
//
//	Stride []int `attr:"stride" default:"1" len:"2" doc:"step of the window"`
//
// An attribute is required if its field lacks the tag default. A default of "none" is the zero value: nil for a pointer
// or slice, Invalid for a dtype. The tag len is the required length of a list. A single number is repeated to this
// length. The tag oneof lists the permitted strings, separated by "|". The tag words lists the permitted words of an
// IntsOrWord in the same way.
//
// Integers beyond 2^47 in absolute value ([tensor.MaxBytes]) are rejected, because no size, stride or distance can be
// that large. The tag range:"int64" permits every integer. It is for bounds of slices, for seeds, and for other numbers
// that are clamped or compared.
//
// A field of type map[string]tensor.Scalar with the tag attr:"*" gets all attributes that have no separate field. These
// attributes must be numbers.
//
// If a pointer to the struct has a method Check() error, Check is called after all fields are set. Check finds errors
// that do not depend on operands. An error that concerns one attribute is an [AttrError].
//
// Fields may be bool, int, sym.Int (a size, which may be unknown), sym.Bool (a condition on sizes), float64, string,
// []int, []float64, *int, *float64, *bool, tensor.Scalar, NumberOrSize, tensor.DType, tensor.MemoryFormat, []bool,
// IntsOrWord, IntOrInts, and *Graph.
type Schema struct {
	// zeroStruct is the zero value of the attribute struct. The schema has no field of type reflect.Type, and no method
	// of Schema or Field has a parameter of package reflect. This keeps builds fast: otherwise every package that uses
	// Op would also compile the generic iterators of reflect.Type.
	zeroStruct any
	Fields     []Field
	// Additional is the field for all attributes without a separate field. It is nil if such attributes are not
	// permitted.
	Additional   *Field
	byName       map[string]int // index in Fields of each attribute
	defaultAttrs any            // decoded attributes if no attribute is given; nil if an attribute is required
}

// Field is one attribute.
type Field struct {
	Name, Doc, Default string
	// Type is the name of the type in the documentation, such as int, int[], float? (optional), or int[]|same|valid
	// (with Words).
	Type     string
	Required bool     // must be given: there is no default
	OneOf    []string // permitted strings; nil if all are permitted
	Words    []string // permitted words of an IntsOrWord or a NumberOrWord
	// Len is the required length of a list, or 0 if any length is permitted. A single number is repeated.
	Len int
	// AnyInt permits integers beyond [tensor.MaxBytes] in absolute value.
	AnyInt bool
	index  int // of the field in the attribute struct
}

// SchemaOf reads the schema from the tags of A, a struct or a pointer to a struct. Go compiles only one SchemaOf for
// all pointer types, so pointers keep programs small. It panics if a tag is malformed or a field has a type that
// [Schema] does not list. [Define] reports other mistakes, such as two attributes with the same name.
//
//go:noinline
func SchemaOf[A any]() *Schema {
	var empty A
	return schemaOf(empty)
}

// schemaOf does the work of [SchemaOf] for the type of `empty`, which is a zero struct or a nil pointer.
func schemaOf(empty any) *Schema {
	structType := reflect.TypeOf(empty)
	if structType != nil && structType.Kind() == reflect.Pointer {
		structType = structType.Elem()
		empty = reflect.Zero(structType).Interface()
	}
	if structType == nil || structType.Kind() != reflect.Struct {
		panic(fmt.Sprintf("graph: attributes are the fields of a struct, not %T", empty))
	}
	schema := &Schema{zeroStruct: empty, byName: map[string]int{}}
	for i := range structType.NumField() {
		structField := structType.Field(i)
		name, ok := structField.Tag.Lookup("attr")
		if !ok {
			panic("graph: field " + structField.Name + " of " + structType.String() + " has no attr tag")
		}
		isMap := structField.IsExported() && structField.Type == reflect.TypeFor[map[string]tensor.Scalar]()
		if name == additionalName && isMap && schema.Additional == nil {
			schema.Additional = &Field{Name: name, Doc: structField.Tag.Get("doc"), Type: "number", index: i}
			continue
		}
		if !structField.IsExported() || !decodable(structField.Type) || name == additionalName {
			panic("graph: field " + structField.Name + " of " + structType.String() +
				" is not exported, or no attribute can have its type")
		}
		field := fieldOf(name, structField.Tag, structField.Type, "graph: field "+structField.Name+" of "+structType.String())
		field.index = i
		schema.byName[name] = len(schema.Fields)
		schema.Fields = append(schema.Fields, field)
	}
	defaults, err := schema.Decode(nil, nil)
	schema.defaultAttrs = defaults
	if err != nil && !slices.ContainsFunc(schema.Fields, func(field Field) bool { return field.Required }) {
		panic("graph: default of " + structType.String() + ": " + err.Error())
	}
	return schema
}

// fieldOf reads an attribute from the tag and the type of a field of the struct. It panics if the tag is malformed. The
// text `place` names the field in the message.
func fieldOf(name string, tag reflect.StructTag, fieldType reflect.Type, place string) Field {
	defaultText, hasDefault := tag.Lookup("default")
	field := Field{Name: name, Doc: tag.Get("doc"), Default: defaultText, Required: !hasDefault, Type: typeName(fieldType)}
	if length := tag.Get("len"); length != "" {
		n, err := strconv.Atoi(length)
		if err != nil || n < 1 || fieldType.Kind() != reflect.Slice {
			panic(place + ": len is for lists, and at least 1")
		}
		field.Len = n
	}
	if oneOf := tag.Get("oneof"); oneOf != "" {
		field.OneOf = strings.Split(oneOf, "|")
	}
	switch intRange := tag.Get("range"); intRange {
	case "", "int64":
		field.AnyInt = intRange != ""
	default:
		panic(place + ": the only permitted range is int64")
	}
	if words := tag.Get("words"); words != "" {
		field.Words = strings.Split(words, "|")
		field.Type += "|" + strings.Join(field.Words, "|")
	}
	return field
}

// additionalName is the name of the field for attributes without a separate field.
const additionalName = "*"

// decodable reports whether setValue can store an attribute in a field of the type.
func decodable(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[tensor.Scalar](), reflect.TypeFor[tensor.DType](), reflect.TypeFor[tensor.MemoryFormat](),
		reflect.TypeFor[*Graph](), reflect.TypeFor[IntsOrWord](), reflect.TypeFor[NumberOrWord](),
		reflect.TypeFor[IntOrInts](), reflect.TypeFor[sym.Int](),
		reflect.TypeFor[sym.Bool](), reflect.TypeFor[NumberOrSize](), reflect.TypeFor[bool](), reflect.TypeFor[int](),
		reflect.TypeFor[float64](), reflect.TypeFor[string]():
		return true
	}
	return (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice) && t.Name() == "" && decodable(t.Elem())
}

// typeName returns Field.Type for a field of type t, without the permitted words.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[tensor.Scalar](), reflect.TypeFor[NumberOrSize](), reflect.TypeFor[NumberOrWord]():
		return "number"
	case reflect.TypeFor[tensor.DType]():
		return "dtype"
	case reflect.TypeFor[tensor.MemoryFormat]():
		return "memory_format"
	case reflect.TypeFor[*Graph]():
		return "graph"
	case reflect.TypeFor[IntsOrWord]():
		return "int[]"
	case reflect.TypeFor[sym.Int]():
		return "int"
	case reflect.TypeFor[sym.Bool]():
		return "condition"
	case reflect.TypeFor[IntOrInts]():
		return "int|int[]"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem()) + "?"
	case reflect.Slice:
		return typeName(t.Elem()) + "[]"
	case reflect.Float64:
		return "float"
	}
	return t.String()
}

// attrsType returns the type of the attribute struct.
func attrsType(s *Schema) reflect.Type { return reflect.TypeOf(s.zeroStruct) }

// has reports whether the op has an attribute of the name.
func (s *Schema) has(name string) bool { _, ok := s.byName[name]; return ok }

// suggest returns the end of the message about an unknown attribute. It lists the op's attributes and suggests a
// similar name.
func (s *Schema) suggest(name string) string {
	if len(s.Fields) == 0 {
		return ": the op has none"
	}
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	meant := suggest.AttrAliases[name]
	if !s.has(meant) {
		meant = suggest.Nearest(name, slices.Values(names))
	}
	return ": the op has " + strings.Join(names, ", ") + suggest.DidYouMean(meant)
}

// DefaultValue returns the default of an attribute as a graph file states it: a number, a string or a list.
// Infinities and NaN are strings. It returns false for a required attribute and for an attribute with the default
// "none".
func (f Field) DefaultValue() (any, bool) {
	if f.Required || f.Default == "none" {
		return nil, false
	}
	v := f.parseDefault()
	if number, ok := v.(float64); ok && numerals.SpecialText(number) != "" {
		return numerals.SpecialText(number), true
	}
	return v, true
}

// parseDefault parses the default tag: a number, true, false, a list of numbers separated by commas, or a string.
func (f Field) parseDefault() any {
	if strings.HasSuffix(f.Type, "[]") {
		list := []any{}
		for _, part := range strings.Split(f.Default, ",") {
			if part != "" {
				list = append(list, parseLiteral(part))
			}
		}
		return list
	}
	return parseLiteral(f.Default)
}

// parseLiteral parses true, false or a number. It returns any other text unchanged.
func parseLiteral(s string) any {
	switch s {
	case "true":
		return true
	case "false":
		return false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if x, err := strconv.ParseFloat(s, 64); err == nil {
		return x
	}
	return s
}

// IntsOrWord is an attribute that is a list of integers or a word, such as the padding of a convolution. A single
// number is a list of length 1. A string that is a symbol or an expression is a size. Any other string is a word, which
// must be one of the field's words.
type IntsOrWord struct {
	Ints []sym.Int
	Word string
}

// NumberOrWord is an attribute that is a number or one of the field's words, such as the order of a norm.
type NumberOrWord struct {
	Number tensor.Scalar
	Word   string
}

// IntOrInts is an attribute that is either one integer or a list of integers, with different meanings. For example,
// split takes one size for all parts, or a list with the size of each part. If the attribute is one integer, List is
// nil.
type IntOrInts struct {
	One  sym.Int
	List []sym.Int
}

// NumberOrSize is an attribute that is a number, or an integer expression over unknown sizes. For an expression, Size
// is set and Number has no dtype.
type NumberOrSize struct {
	Number tensor.Scalar
	Size   sym.Int
}
