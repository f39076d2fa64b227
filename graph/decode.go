package graph

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Decode returns a pointer to the attribute struct, filled from the given attributes. Every integer may be given as an
// expression over symbols. The map symbols has the size of each symbol, known or unknown. If an expression depends on
// unknown sizes, a field of type sym.Int gets the expression. A field of type int gets the value of the expression at
// typical sizes (the hints). In this case, Decode records a guard: the result is valid only for sizes at which the
// expression has this value. For example, with the hint 8 of n:
//
//	struct { Dims []int `attr:"dims"`; End sym.Int `attr:"end"` }    the attribute struct
//	{"dims": ["n - 7"], "end": "n - 1"}                              the given attributes
//	{Dims: [1], End: n - 1}, with the guard n - 7 == 1               the result
//
// Decode fails if an attribute is unknown, missing, or of the wrong type. The error names the attribute. Decode also
// returns the error of the struct's method Check. This error need not name an attribute.
func (s *Schema) Decode(given Attrs, symbols map[string]sym.Int) (any, error) {
	if s.zeroStruct == nil {
		return nil, errors.New("the schema was not made by SchemaOf")
	}
	if len(given) == 0 && s.defaultAttrs != nil {
		return s.defaultAttrs, nil
	}
	out := reflect.New(attrsType(s))
	if err := setAdditionalAttrs(s, out.Elem(), given, symbols); err != nil {
		return nil, err
	}
	if err := setFieldAttrs(s, out.Elem(), given, symbols); err != nil {
		return nil, err
	}
	if checker, ok := out.Interface().(interface{ Check() error }); ok {
		if err := checker.Check(); err != nil {
			return nil, err
		}
	}
	return out.Interface(), nil
}

// setFieldAttrs stores the attributes that have a field, or their defaults.
func setFieldAttrs(schema *Schema, attrs reflect.Value, given Attrs, symbols map[string]sym.Int) error {
	for _, field := range schema.Fields {
		value, ok := given[field.Name]
		switch {
		case ok: // the value is given
		case field.Required:
			return fmt.Errorf("attribute %q (%s) is missing", field.Name, field.Type)
		case field.Default == "none":
			continue // the field keeps its zero value
		default:
			value = field.parseDefault()
		}
		if err := setField(field, attrs.Field(field.index), value, symbols); err != nil {
			return &AttrError{field.Name, fmt.Errorf("attribute %q: %w", field.Name, field.withExpectedType(err))}
		}
	}
	return nil
}

// setAdditionalAttrs stores the attributes for which the struct has no separate field. It fails if the schema does not
// permit such attributes.
func setAdditionalAttrs(schema *Schema, attrs reflect.Value, given Attrs, symbols map[string]sym.Int) error {
	for _, name := range sorted.Keys(given) {
		if _, ok := schema.byName[name]; ok {
			continue
		}
		if schema.Additional == nil {
			return &AttrError{name, fmt.Errorf("unknown attribute %q%s", name, schema.suggest(name))}
		}
		if err := setAdditional(schema, attrs, name, given[name], symbols); err != nil {
			return &AttrError{name, fmt.Errorf("attribute %q: %w", name, err)}
		}
	}
	return nil
}

// setAdditional stores an attribute for which the struct has no separate field.
func setAdditional(schema *Schema, attrs reflect.Value, name string, given any, symbols map[string]sym.Int) error {
	var number tensor.Scalar
	if err := setField(*schema.Additional, reflect.ValueOf(&number).Elem(), given, symbols); err != nil {
		return schema.Additional.withExpectedType(err)
	}
	// others is the field that stores all attributes without a separate field.
	others := attrs.Field(schema.Additional.index).Addr().Interface().(*map[string]tensor.Scalar)
	if *others == nil {
		*others = map[string]tensor.Scalar{}
	}
	(*others)[name] = number
	return nil
}

// setField checks the value given for an attribute and stores it in dst, the field of the attribute struct.
func setField(field Field, dst reflect.Value, given any, symbols map[string]sym.Int) error {
	// A pointer to a graph is the value of the attribute; other pointers are dereferenced.
	if dst.Type() == reflect.TypeFor[*Graph]() {
		subgraph, ok := given.(*Graph)
		if !ok || subgraph == nil {
			return &mismatchError{got: given}
		}
		dst.Set(reflect.ValueOf(subgraph))
		return nil
	}
	if given = dereferenced(given); given == nil {
		if field.Default == "none" || dst.Kind() == reflect.Pointer {
			return nil
		}
		return fmt.Errorf("the value must not be null")
	}
	// A word that the field permits, such as "valid", is not an expression, even if a symbol has the same name.
	if word, isText := given.(string); isText && slices.Contains(field.Words, word) {
		switch target := dst.Addr().Interface().(type) {
		case *IntsOrWord:
			*target = IntsOrWord{Word: word}
		case *NumberOrWord:
			*target = NumberOrWord{Word: word}
		}
		return nil
	}
	if err := setValue(dst, given, symbols); err != nil {
		return err
	}
	return completeField(field, dst, symbols)
}

// completeField checks the value in dst against the limits of the field, and gives a list the length field.Len.
func completeField(field Field, dst reflect.Value, symbols map[string]sym.Int) error {
	if tooLarge, found := findTooLarge(dst); found && !field.AnyInt {
		return fmt.Errorf("%d is out of range: integers from -2^47 to 2^47 are accepted", tooLarge)
	}
	if target, ok := dst.Addr().Interface().(*IntsOrWord); ok { // setValue accepts every word
		if target.Word != "" && !slices.Contains(field.Words, target.Word) {
			return field.unknownWord(target.Word, symbols)
		}
	}
	if field.Len > 0 {
		if err := setLength(field, dst); err != nil {
			return err
		}
	}
	if field.OneOf != nil && !slices.Contains(field.OneOf, dst.String()) {
		similar := suggest.Nearest(dst.String(), slices.Values(field.OneOf))
		return fmt.Errorf("%q is not one of %s%s", dst.String(), strings.Join(field.OneOf, ", "), suggest.DidYouMean(similar))
	}
	return nil
}

// dereferenced replaces a pointer by its value, or by nil. A decomposition passes a pointer if it copies an optional
// attribute from another op's attribute struct.
func dereferenced(given any) any {
	pointer := reflect.ValueOf(given)
	switch {
	case pointer.Kind() != reflect.Pointer:
		return given
	case pointer.IsNil():
		return nil
	}
	return pointer.Elem().Interface()
}

// setValue stores a JSON or Go value in a field of a matching type. If an attribute was given as a tensor, the value is
// an elementList. An elementList of one element is also accepted as a number.
func setValue(dst reflect.Value, given any, symbols map[string]sym.Int) error {
	if list, ok := given.(elementList); ok && len(list) == 1 && dst.Kind() != reflect.Slice &&
		dst.Type() != reflect.TypeFor[IntOrInts]() {
		given = list[0]
	}
	switch target := dst.Addr().Interface().(type) {
	case *bool:
		return setExact(target, given)
	case *int:
		number, err := toInt(given, symbols)
		*target = number
		return err
	case *sym.Int:
		number, err := toSize(given, symbols)
		*target = number
		return err
	case *sym.Bool:
		condition, err := toCondition(given, symbols)
		*target = condition
		return err
	case *float64:
		number, ok := numerals.Float(given)
		if !ok {
			return notANumber(given)
		}
		*target = number
	case *string:
		return setExact(target, given)
	case *tensor.Scalar:
		number, err := toNumber(given, symbols)
		*target = number.Number
		if err == nil && number.Number.DType() == tensor.Invalid {
			// The number is an expression over sizes. Use its value at the hints, and record a guard.
			*target = tensor.IntScalar(int64(number.Size.Specialize()))
		}
		return err
	case *NumberOrWord:
		return setValue(reflect.ValueOf(&target.Number).Elem(), given, symbols)
	case *NumberOrSize:
		number, err := toNumber(given, symbols)
		*target = number
		return err
	case *tensor.DType:
		return setNamed(target, given, tensor.ParseDType)
	case *tensor.MemoryFormat:
		return setNamed(target, given, tensor.ParseMemoryFormat)
	case *IntsOrWord:
		return target.set(given, symbols)
	case *IntOrInts:
		return target.set(given, symbols)
	default:
		return setCompound(dst, given, symbols)
	}
	return nil
}

// setExact sets target to a value of type T.
func setExact[T any](target *T, given any) error {
	value, ok := given.(T)
	if !ok {
		return &mismatchError{got: given}
	}
	*target = value
	return nil
}

// setNamed sets dst to the given value, which is a T or the name of a T.
func setNamed[T any](dst *T, given any, parse func(string) (T, error)) error {
	if value, ok := given.(T); ok {
		*dst = value
		return nil
	}
	name, ok := given.(string)
	if !ok {
		return &mismatchError{got: given}
	}
	value, err := parse(name)
	*dst = value
	return err
}

// setCompound stores a value as setValue does, in a field that is a pointer or a list.
func setCompound(dst reflect.Value, given any, symbols map[string]sym.Int) error {
	if dst.Kind() == reflect.Pointer {
		pointer := reflect.New(dst.Type().Elem())
		if err := setValue(pointer.Elem(), given, symbols); err != nil {
			return err
		}
		dst.Set(pointer)
		return nil
	}
	src := reflect.ValueOf(given)
	if src.Kind() != reflect.Slice {
		// A single number is a list of length 1.
		src = reflect.ValueOf([]any{given})
	}
	list := reflect.MakeSlice(dst.Type(), src.Len(), src.Len())
	for i := range src.Len() {
		if err := setValue(list.Index(i), src.Index(i).Interface(), symbols); err != nil {
			return err
		}
	}
	dst.Set(list)
	return nil
}

// set sets p to a word or to integers. A text is an expression if all its names are symbols, or if it has an operator,
// as in "n + 1". Every other text is a word. set fails for an expression with an unknown name. The caller, setField,
// checks that the word is one of the field's words.
func (p *IntsOrWord) set(given any, symbols map[string]sym.Int) error {
	if text, ok := given.(string); ok {
		if _, err := expressionIn(text, symbols); err != nil && !isExpression(text) {
			p.Word = text
			return nil
		}
	}
	return setValue(reflect.ValueOf(&p.Ints).Elem(), given, symbols)
}

// set sets p.List to a list, or p.One to a single integer.
func (p *IntOrInts) set(given any, symbols map[string]sym.Int) error {
	switch given.(type) {
	case []int, []any, elementList:
		p.List = []sym.Int{}
		return setValue(reflect.ValueOf(&p.List).Elem(), given, symbols)
	}
	return setValue(reflect.ValueOf(&p.One).Elem(), given, symbols)
}

// setLength gives a list of numbers the length field.Len: a single number stands for field.Len equal numbers. It fails
// for a list of another length. A list with the default "none" may be empty. setLength is not a method of Field,
// because such methods must not have parameters of package reflect: see [Schema].
func setLength(field Field, list reflect.Value) error {
	if list.Len() == 1 {
		for list.Len() < field.Len {
			list.Set(reflect.Append(list, list.Index(0)))
		}
	}
	if list.Len() != field.Len && !(list.Len() == 0 && field.Default == "none") {
		return fmt.Errorf("want %d numbers, got %d", field.Len, list.Len())
	}
	return nil
}

// unknownWord returns the error of a text that is neither in Words nor an integer or expression.
func (f Field) unknownWord(word string, symbols map[string]sym.Int) error {
	if similar := suggest.Nearest(word, slices.Values(f.Words)); similar != "" {
		return &mismatchError{word, suggest.DidYouMean(similar)}
	}
	return notAnInteger(word, symbols)
}

// AttrError is a mistake in an attribute. An [Error] that wraps an AttrError has the position of the attribute in the
// file.
type AttrError struct {
	Attr string
	Err  error
}

// Error returns the message of the cause, which names the attribute.
func (e *AttrError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("attribute %q: no cause was given", e.Attr)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *AttrError) Unwrap() error { return e.Err }

// mismatchError reports a value that does not have the type of its attribute. [Field.withExpectedType] adds the
// expected type to the message.
type mismatchError struct {
	got        any
	suggestion string
}

// Error returns the value and the suggestion.
func (e *mismatchError) Error() string { return "got " + valueText(e.got) + e.suggestion }

// withExpectedType adds the expected type to a mismatchError. It returns other errors unchanged.
func (f Field) withExpectedType(err error) error {
	var mismatch *mismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	return fmt.Errorf("want %s, %w", f.acceptedValues(), mismatch)
}

// acceptedValues describes the values that the attribute accepts. For example, the type "int[]?" accepts "an integer, a
// list of integers or null".
func (f Field) acceptedValues() string {
	name := strings.TrimPrefix(f.Type, "int|") // of an IntOrInts: lists of integers accept an integer, too
	name, _, _ = strings.Cut(name, "|")        // without the words of an IntsOrWord or a NumberOrWord
	name, optional := strings.CutSuffix(name, "?")
	item, isList := strings.CutSuffix(name, "[]")
	list := []string{typeTexts[item]}
	switch {
	case isList && item == "bool": // "true or false" has no plural
		list = append(list, "a list of these")
	case isList:
		singular := strings.TrimPrefix(strings.TrimPrefix(typeTexts[item], "an "), "a ")
		list = append(list, "a list of "+singular+"s")
	}
	list = append(list, f.Words...)
	if optional || f.Default == "none" {
		list = append(list, "null")
	}
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// typeTexts describes the types of attributes in messages.
var typeTexts = map[string]string{"int": "an integer", "float": "a number", "number": "a number",
	"bool": "true or false", "string": "a string", "dtype": "the name of a dtype",
	"memory_format": "the name of a memory format", "graph": "a graph", "condition": "a comparison of sizes"}

// valueText is a short description of a value in a file.
func valueText(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(x)
	case bool, int, int64, float64:
		return fmt.Sprint(x)
	case []any:
		return "a list"
	case elementList:
		return fmt.Sprintf("a value of %d elements", len(x))
	case map[string]any:
		return "an object"
	}
	if s, ok := tensor.ScalarOf(v); ok {
		return s.String()
	}
	return fmt.Sprintf("a value of type %T", v)
}

// notANumber is the error of a value that should be a number.
func notANumber(v any) error {
	mismatch := &mismatchError{got: v}
	if text, ok := v.(string); ok {
		// The text may be a misspelled literal, such as "nan" for "NaN", or a decimal number in quotes. ParseFloat also
		// accepts names and hexadecimal numbers, but they are not suggested.
		if meant := numerals.IntendedLiteral(text); meant != "" {
			mismatch.suggestion = suggest.DidYouMean(strconv.Quote(meant))
		} else if _, err := strconv.ParseFloat(text, 64); err == nil && strings.Trim(text, "+-.0123456789eE") == "" {
			mismatch.suggestion = suggest.DidYouMean(text)
		}
	}
	return mismatch
}
