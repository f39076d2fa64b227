package graphfile

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/tensor"
)

// This file writes numbers, attributes and data of constants as JSON. Examples of the texts:
//
//	2.0             a float operand; 2 would be read as an integer
//	"Infinity"      an infinity
//	[1.0, -0.5]     a complex number
//	{"value": "k"}  an attribute that is the value k of the graph
//	[[1, 0.1], [2, 3]]  the data of a float32 constant of shape [2, 2]

// quote returns a JSON string. Invalid UTF-8 becomes U+FFFD, because JSON cannot hold it.
func quote(s string) string {
	quoted, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\uFFFD"))
	return string(quoted)
}

// writeOperandNumber writes a number in the list of a node's inputs. In this list, a string such as "Infinity" is a
// number only if no value has this name, and a list, such as a complex number, is not allowed. If necessary, the number
// is written as an object: {"number": [1.0, -0.5]}.
func (s *saver) writeOperandNumber(number tensor.Scalar) {
	text := scalarText(number)
	if text[0] == '[' || text[0] == '"' && s.graph.Value(strings.Trim(text, `"`)) != nil {
		text = "{\"number\": " + text + "}"
	}
	s.buf.WriteString(text)
}

// scalarText returns the JSON of a number. A complex number is a pair.
func scalarText(number tensor.Scalar) string {
	switch dtype := number.DType(); {
	case dtype.IsFloat():
		return floatText(number.Float(), 64)
	case dtype.IsComplex():
		z := number.Complex()
		return "[" + floatText(real(z), 64) + ", " + floatText(imag(z), 64) + "]"
	}
	return number.String()
}

// floatText returns the JSON of a floating-point number of 32 or 64 bits. The text has a point or an exponent, so that
// it is not read as an integer. Infinities and NaN are strings.
func floatText(x float64, bits int) string {
	if name := numerals.SpecialText(x); name != "" {
		return `"` + name + `"`
	}
	text := strconv.FormatFloat(x, 'g', -1, bits)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

// writeAttrs writes the attributes as given, in the order of the op's schema, without default values.
func (s *saver) writeAttrs(n *graph.Node) error {
	const first = ", \"attrs\": {"
	sep := first // the text before the next attribute
	for name, v := range n.AttrsAsGiven() {
		s.buf.WriteString(sep + quote(name) + ": ")
		var err error
		if g, ok := v.(*graph.Graph); ok {
			err = s.writeSubgraph(g, n.Name+"."+name+".")
		} else {
			err = s.writeAttr(v)
		}
		if err != nil {
			return fmt.Errorf("attribute %q: %w", name, err)
		}
		sep = ", "
	}
	if sep != first {
		s.buf.WriteByte('}')
	}
	return nil
}

// writeAttr writes the value of an attribute, which has a JSON type or a Go type of the schema.
func (s *saver) writeAttr(value any) error {
	switch attr := value.(type) {
	case nil:
		s.buf.WriteString("null")
		return nil
	case graph.ValueRef:
		s.buf.WriteString("{\"value\": " + quote(attr.Value.Name) + "}")
		return nil
	case string:
		s.buf.WriteString(quote(attr))
		return nil
	case tensor.DType, tensor.MemoryFormat:
		fmt.Fprintf(&s.buf, "%q", attr)
		return nil
	}
	if number, ok := tensor.ScalarOf(value); ok {
		s.buf.WriteString(scalarText(number))
		return nil
	}
	reflected := reflect.ValueOf(value)
	switch reflected.Kind() {
	case reflect.Pointer:
		if reflected.IsNil() {
			return s.writeAttr(nil)
		}
		return s.writeAttr(reflected.Elem().Interface())
	case reflect.Slice:
		s.buf.WriteByte('[')
		for i := range reflected.Len() {
			if i > 0 {
				s.buf.WriteString(", ")
			}
			if err := s.writeAttr(reflected.Index(i).Interface()); err != nil {
				return err
			}
		}
		s.buf.WriteByte(']')
		return nil
	}
	return fmt.Errorf("a %T cannot be written", value)
}

// writeData writes a constant's elements, numbers or strings, as nested lists. The text of each element is the shortest
// text from which the element can be read exactly.
func writeData(b *bytes.Buffer, t *tensor.Tensor) {
	writeElement := elementWriter(t)
	// writeFrom writes the elements along dimension dim and all later dimensions. distance is the distance of the first
	// of these elements from the first element of t.
	var writeFrom func(dim, distance int)
	writeFrom = func(dim, distance int) {
		if dim == t.Rank() {
			writeElement(b, distance)
			return
		}
		b.WriteByte('[')
		for i := range t.Shape[dim] {
			if i > 0 {
				b.WriteString(", ")
			}
			writeFrom(dim+1, distance+i*t.Strides[dim])
		}
		b.WriteByte(']')
	}
	writeFrom(0, 0)
}

// elementWriter returns a function that writes one element of t. Its second argument is the distance in elements from
// the first element.
func elementWriter(t *tensor.Tensor) func(b *bytes.Buffer, distance int) {
	size, bits := t.DType.Size(), 32
	if t.DType == tensor.Float64 || t.DType == tensor.Complex128 {
		bits = 64
	}
	base, texts := t.Pointer(), t.Texts()
	printedDType := tensor.Int64
	switch {
	case t.DType.IsComplex():
		printedDType = tensor.Complex128
	case t.DType.IsFloat():
		printedDType = tensor.Float64
	}
	convert := tensor.Converter(printedDType, t.DType)
	const stride, count = 0, 1 // of a conversion of one element
	return func(b *bytes.Buffer, distance int) {
		p := unsafe.Add(base, distance*size)
		switch {
		case printedDType == tensor.Complex128:
			var z complex128
			convert(unsafe.Pointer(&z), p, stride, stride, count)
			fmt.Fprintf(b, "[%s, %s]", plainFloat(real(z), bits), plainFloat(imag(z), bits))
		case printedDType == tensor.Float64:
			var x float64
			convert(unsafe.Pointer(&x), p, stride, stride, count)
			b.WriteString(plainFloat(x, bits))
		default:
			var i int64
			convert(unsafe.Pointer(&i), p, stride, stride, count)
			if texts != nil && t.DType == tensor.Int64 {
				text, _ := texts.Text(i)
				b.WriteString(quote(text))
				return
			}
			b.WriteString(integerText(t.DType, i))
		}
	}
}

// plainFloat returns the JSON of a floating-point number whose dtype is known: 2 instead of 2.0.
func plainFloat(x float64, bits int) string { return strings.TrimSuffix(floatText(x, bits), ".0") }

// integerText returns the JSON of an integer or bool of a dtype, converted to int64.
func integerText(dtype tensor.DType, i int64) string {
	switch {
	case dtype == tensor.Bool:
		return strconv.FormatBool(i != 0)
	case dtype == tensor.Uint64:
		return strconv.FormatUint(uint64(i), 10)
	}
	return strconv.FormatInt(i, 10)
}
