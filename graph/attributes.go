package graph

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// ValueRef is an attribute in [Attrs] that is a value of the graph, such as a computed shape or the k of a topk. A
// graph file writes a ValueRef as {"value": "name"}.
//
// If the value is a constant, the attribute is decoded from its data. Otherwise the graph runs in segments: the node
// and all nodes that depend on it are planned only after the value is computed.
type ValueRef struct{ Value *Value }

// attributes are the attributes of a node as the user gave them, before they are decoded into Node.Attrs. They may
// refer to symbols and to values of the graph. Nodes of a file that have equal attributes share one attributes struct.
// For example, a slice along dimension 1 with a symbolic end, and with a value of the graph as step, has
//
//	given: Attrs{"dim": 1, "end": "n - 1", "step": ValueRef{step}}
//	refs:  [{"step", step}]
type attributes struct {
	given Attrs
	refs  []attrRef // the attributes that are values of the graph, sorted by name
}

// attrRef is an attribute of a node that is a value of the graph.
type attrRef struct {
	attr  string
	value *Value
}

// attributesOf returns the attributes struct for the given attributes, or nil if none are given.
func attributesOf(given Attrs) *attributes {
	if len(given) == 0 {
		return nil
	}
	created := &attributes{given: given}
	for name, v := range given {
		if ref, ok := v.(ValueRef); ok {
			created.refs = append(created.refs, attrRef{name, ref.Value})
		}
	}
	if len(created.refs) > 1 {
		sorted.Func(created.refs, func(first, second attrRef) int { return cmp.Compare(first.attr, second.attr) })
	}
	return created
}

// clone returns a copy of the map and of the slices in it. Later changes of the original do not affect the copy.
func (a Attrs) clone() Attrs {
	copied := maps.Clone(a)
	for name, v := range copied {
		if list := reflect.ValueOf(v); list.Kind() == reflect.Slice && !list.IsNil() {
			copied[name] = reflect.AppendSlice(reflect.MakeSlice(list.Type(), 0, list.Len()), list).Interface()
		}
	}
	return copied
}

// clone returns the attributes for a copy of the graph. copyOf maps the values of the graph to their copies.
func (a *attributes) clone(copyOf func(*Value) *Value) *attributes {
	if a == nil || len(a.refs) == 0 {
		return a
	}
	given := maps.Clone(a.given)
	for _, ref := range a.refs {
		given[ref.attr] = ValueRef{copyOf(ref.value)}
	}
	return attributesOf(given)
}

// givenAttrs returns the attributes as they were given.
func (n *Node) givenAttrs() Attrs {
	if n.undecoded == nil {
		return nil
	}
	return n.undecoded.given
}

// refs returns the attributes that are values of the graph.
func (n *Node) refs() []attrRef {
	if n.undecoded == nil {
		return nil
	}
	return n.undecoded.refs
}

// AttrRefs returns the values of the graph that are attributes of the node.
func (n *Node) AttrRefs() []*Value {
	var values []*Value
	for _, ref := range n.refs() {
		values = append(values, ref.value)
	}
	return values
}

// SetAttr sets an attribute of a node to a value, which has the form of an attribute in Go or in a file. Inference
// decodes and checks it. The graph must be inferred again.
func (n *Node) SetAttr(name string, value any) {
	if n == nil {
		return
	}
	given := maps.Clone(n.givenAttrs())
	if given == nil {
		given = Attrs{}
	}
	given[name] = value
	n.undecoded, n.Attrs = attributesOf(given), nil
}

// AttrsAsGiven yields the attributes as they were given, with symbols and values of the graph ([ValueRef]). The
// attributes with a field in the op's schema come first, in the order of the schema. Attributes that equal their
// default are omitted. The attributes of [Schema.Additional] follow, sorted by name.
func (n *Node) AttrsAsGiven() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if n == nil || n.Op == nil || n.Op.Schema == nil || n.undecoded == nil {
			return
		}
		var symbols map[string]sym.Int
		if len(n.Out) > 0 && n.Out[0].graph != nil {
			symbols = n.Out[0].graph.sizes
		}
		for _, field := range n.Op.Schema.Fields {
			given, ok := n.undecoded.given[field.Name]
			if ok && !n.Op.Schema.isDefault(field, given, symbols) && !yield(field.Name, given) {
				return
			}
		}
		if n.Op.Schema.Additional == nil {
			return
		}
		for _, name := range sorted.Keys(n.undecoded.given) {
			if _, ok := n.Op.Schema.byName[name]; !ok && !yield(name, n.undecoded.given[name]) {
				return
			}
		}
	}
}

// isDefault reports whether a given attribute decodes to the default of its field. It returns false for an
// attribute that names a symbol, because the symbol may be bound to another size later.
func (s *Schema) isDefault(field Field, given any, symbols map[string]sym.Int) bool {
	if _, ok := given.(ValueRef); ok || field.Required || attrDependsOnAny(given, symbols) {
		return false
	}
	givenField := reflect.New(attrsType(s)).Elem().Field(field.index)
	if setField(field, givenField, given, symbols) != nil {
		return false
	}
	defaultField := reflect.New(attrsType(s)).Elem().Field(field.index) // the default "none" is the zero value
	if field.Default != "none" && setField(field, defaultField, field.parseDefault(), nil) != nil {
		return false
	}
	return identical(givenField, defaultField)
}

// SameAttrs reports whether two nodes of the same op have the same attributes. 0 differs from -0, and a NaN equals
// itself. Sizes are equal if their expressions are equal. Graphs in attributes are compared by their addresses. A nil
// node has the same attributes as nil only. The attributes named in except are not compared; other names are ignored.
func SameAttrs(first, second *Node, except ...string) bool {
	if first == nil || second == nil {
		return first == second
	}
	firstAttrs, secondAttrs := reflect.ValueOf(first.Attrs), reflect.ValueOf(second.Attrs)
	firstStruct, secondStruct := reflect.Indirect(firstAttrs), reflect.Indirect(secondAttrs)
	if len(except) == 0 || first.Op == nil || first.Op.Schema == nil || first.Op != second.Op ||
		firstStruct.Kind() != reflect.Struct || secondStruct.Kind() != reflect.Struct {
		return identical(firstAttrs, secondAttrs)
	}
	ignored := map[int]bool{}
	for _, field := range first.Op.Schema.Fields {
		ignored[field.index] = slices.Contains(except, field.Name)
	}
	for i := range firstStruct.NumField() {
		if !ignored[i] && !identical(firstStruct.Field(i), secondStruct.Field(i)) {
			return false
		}
	}
	return true
}

// identical compares two values as [reflect.DeepEqual] does, with three exceptions. Floating-point numbers are compared
// by their bits: 0 differs from -0, and a NaN equals itself. Graphs are compared by their addresses. Values of sym.Int
// are compared by Same.
func identical(first, second reflect.Value) bool {
	if !first.IsValid() || !second.IsValid() || first.Type() != second.Type() {
		return !first.IsValid() && !second.IsValid()
	}
	if first.Type() == reflect.TypeFor[sym.Int]() && first.CanInterface() && second.CanInterface() {
		return first.Interface().(sym.Int).Same(second.Interface().(sym.Int)) // DeepEqual would compare both sym.Env
	}
	switch first.Kind() {
	case reflect.Float32, reflect.Float64:
		return sameBits(first.Float(), second.Float())
	case reflect.Complex64, reflect.Complex128:
		firstNumber, secondNumber := first.Complex(), second.Complex()
		return sameBits(real(firstNumber), real(secondNumber)) && sameBits(imag(firstNumber), imag(secondNumber))
	case reflect.Struct:
		for i := range first.NumField() {
			if !identical(first.Field(i), second.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if first.Len() != second.Len() || first.Kind() == reflect.Slice && first.IsNil() != second.IsNil() {
			return false
		}
		for i := range first.Len() {
			if !identical(first.Index(i), second.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Interface:
		return identical(first.Elem(), second.Elem())
	case reflect.Pointer: // compare graphs by address, and other pointers by the values they point to
		if first.Pointer() == second.Pointer() || first.Type() == reflect.TypeFor[*Graph]() {
			return first.Pointer() == second.Pointer()
		}
		return identical(first.Elem(), second.Elem())
	case reflect.Map:
		if first.Len() != second.Len() || first.IsNil() != second.IsNil() {
			return false
		}
		for k, v := range first.Seq2() {
			if !identical(v, second.MapIndex(k)) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan:
		return first.IsNil() && second.IsNil()
	}
	return first.Equal(second)
}

// sameBits reports whether two numbers have the same bits.
func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// decode decodes the attributes. It returns nil without an error if an attribute is a value of the graph that is not a
// constant.
func (n *Node) decode(symbols map[string]sym.Int) (any, error) {
	given, ok, err := n.undecoded.withData(func(v *Value) *tensor.Tensor {
		if v == nil {
			return nil
		}
		return v.Const
	})
	if err != nil || !ok {
		return nil, err
	}
	return n.Op.Schema.Decode(given, symbols)
}

// withData returns the attributes with every ValueRef replaced by the elements of its value. ok is false if the data of
// a referenced value are not known.
func (a *attributes) withData(dataOf func(*Value) *tensor.Tensor) (given Attrs, ok bool, err error) {
	if a == nil {
		return nil, true, nil
	}
	if len(a.refs) == 0 {
		return a.given, true, nil
	}
	given = maps.Clone(a.given)
	for _, ref := range a.refs {
		data := dataOf(ref.value)
		if data == nil {
			return nil, false, nil
		}
		if given[ref.attr], err = attrFromTensor(data); err != nil {
			return nil, false, fmt.Errorf("attribute %q: %w", ref.attr, err)
		}
	}
	return given, true, nil
}

// maxAttrElements is the maximum number of elements of a value that is used as an attribute. A shape needs far fewer.
const maxAttrElements = 1 << 16

// attrFromTensor returns the elements of a tensor in the form of an attribute.
func attrFromTensor(t *tensor.Tensor) (any, error) {
	if t.Numel() > maxAttrElements {
		return nil, fmt.Errorf("a value of %d elements cannot be an attribute: the limit is %d elements", t.Numel(),
			maxAttrElements)
	}
	rowMajor := t.CopyTo(tensor.New(t.DType, t.Shape...))
	list := make(elementList, t.Numel())
	for i := range list {
		meta := rowMajor.Meta // meta becomes a view of element i: no dimensions, and offset i
		meta.Shape, meta.Strides, meta.Offset = nil, nil, i
		list[i] = attrFromElement(t.DType, tensor.Must(rowMajor.View(meta)).At())
	}
	if len(t.Shape) == 0 {
		return list[0], nil
	}
	return list, nil
}

// attrFromElement returns an element of a tensor in the form of an attribute.
func attrFromElement(dtype tensor.DType, element tensor.Scalar) any {
	switch {
	case dtype == tensor.Bool:
		return element.Int() != 0
	case dtype.IsIntegral(false): // without bool
		return element.Int()
	case dtype.IsComplex():
		return element.Complex()
	}
	return element.Float()
}

// elementList has the elements of a tensor that is given as an attribute. A list of length 1 is also accepted as a
// number.
type elementList []any

// The rest of the file moves numbers from the attributes of a node to its operands. In aten's schemas, a plain number
// can be an argument: masked_fill(self, mask, value=0), pow(self=2, exponent). In a graph, such an argument is an
// operand, so that one op accepts both numbers and tensors. A number that the user gives as an attribute becomes an
// operand when the node is made: masked_fill of (x, mask) with the attribute value=0 becomes masked_fill of (x, mask,
// 0). splitNumbers returns the numbers [nil, nil, 0], and addNumbers adds them to the operands.

// attrName returns the name that a number for this operand has in aten's schema.
func (p Param) attrName() string {
	if p.Attr != "" {
		return p.Attr
	}
	return p.Name
}

// numberOperand returns the index of the operand that an attribute with the given name sets. It returns -1 if there is
// no such operand, or if the op's schema has an attribute of that name.
func (op *Op) numberOperand(name string) int {
	if op.Schema == nil || op.Schema.has(name) { // an op that Define did not make has no schema
		return -1
	}
	return slices.IndexFunc(op.Params, func(p Param) bool {
		return p.AcceptsNumber && !p.Variadic && p.attrName() == name
	})
}

// NumberAttr returns the name of the attribute by which operand p can be given as a number. It is empty if there is no
// such attribute.
func (op *Op) NumberAttr(p Param) string {
	if i := op.numberOperand(p.attrName()); i < 0 || op.Params[i].Name != p.Name {
		return ""
	}
	return p.attrName()
}

// hasNumbers reports whether at least one of the given attributes sets an operand.
func (op *Op) hasNumbers(given Attrs) bool {
	for name, v := range given {
		if v != nil && op.numberOperand(name) >= 0 {
			return true
		}
	}
	return false
}

// splitNumbers separates the given attributes. numbers has the attributes that set operands, indexed by operand.
// otherAttrs has all other attributes. numbers is nil if no attribute sets an operand.
func (op *Op) splitNumbers(given Attrs) (otherAttrs Attrs, numbers []any) {
	if !op.hasNumbers(given) {
		return given, nil
	}
	otherAttrs, numbers = Attrs{}, make([]any, len(op.Params))
	for name, v := range given {
		if i := op.numberOperand(name); i >= 0 {
			numbers[i] = v
		} else {
			otherAttrs[name] = v
		}
	}
	return otherAttrs, numbers
}

// addNumbers adds numbers, the second result of splitNumbers, to the operands.
func (n *Node) addNumbers(numbers []any) error {
	if numbers == nil {
		return nil
	}
	// If the operands are complete, as in (x, mask, null), the number replaces the null. Otherwise the operands are the
	// tensors only, as in (x, mask), and the number is inserted at its index.
	isComplete := len(n.In) == len(n.Op.Params)
	operands := slices.Clone(n.In)
	for i, number := range numbers {
		if number == nil {
			continue
		}
		operand, err := numberArg(number)
		if err != nil {
			return fmt.Errorf("attribute %q: %w", n.Op.Params[i].attrName(), err)
		}
		switch {
		case isComplete && operands[i].Kind == Null:
			operands[i] = operand
		case isComplete:
			return fmt.Errorf("operand %q is given twice, the second time as attribute %q", n.Op.Params[i].Name,
				n.Op.Params[i].attrName())
		default: // nulls, which are zero Args, fill the positions of absent operands before i
			operands = append(operands, make([]Arg, max(0, i-len(operands)))...)
			operands = slices.Insert(operands, i, operand)
		}
	}
	n.In = operands
	return nil
}

// moveNumbers moves numbers among the operands to the attributes of the same name: repeat_interleave of (x, 2) becomes
// repeat_interleave of x with the attribute repeats=2. An operand that accepts numbers keeps them.
func (n *Node) moveNumbers() error {
	schema, isMoved := n.Op.Schema, false
	for i, arg := range n.In {
		if schema == nil || i >= len(n.Op.Params) || arg.Kind != NumberArg {
			continue
		}
		param := n.Op.Params[i]
		if param.AcceptsNumber || param.Variadic || !param.Optional || !schema.has(param.attrName()) {
			continue
		}
		given := maps.Clone(n.givenAttrs())
		if given == nil {
			given = Attrs{}
		}
		if given[param.attrName()] != nil {
			return fmt.Errorf("operand %q is given twice, the second time as attribute %q", param.Name, param.attrName())
		}
		given[param.attrName()] = plainNumber(arg.Number)
		n.undecoded, n.In[i], isMoved = attributesOf(given), Arg{}, true
	}
	if isMoved {
		n.Attrs = nil // inference decodes the attributes again
	}
	return nil
}

// plainNumber returns a number as attributes have it.
func plainNumber(number tensor.Scalar) any {
	switch dtype := number.DType(); {
	case dtype == tensor.Bool:
		return number.Int() != 0
	case dtype.IsComplex():
		return number.Complex()
	case dtype.IsFloat():
		return number.Float()
	}
	return int(number.Int())
}

// numberArg converts an attribute to an operand.
func numberArg(given any) (Arg, error) {
	if ref, ok := given.(ValueRef); ok && ref.Value != nil {
		return Arg{Kind: TensorArg, Value: ref.Value}, nil
	}
	number, ok := numerals.Scalar(given)
	if !ok {
		return Arg{}, fmt.Errorf("want a number, got %v", given)
	}
	return Arg{Kind: NumberArg, Number: number}, nil
}
