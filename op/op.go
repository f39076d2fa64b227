// Package op adds nodes to graphs. It has one function for each op of the catalogue. The operands and attributes are
// parameters, so that the Go compiler sees mistakes.
//
//	g := graph.New("net", kernels.Lookup)
//	x := g.Input("x", tensor.Float32, 1, 3, 224, 224)
//	y := op.Relu(op.Conv2d(x, w, bias, op.Conv2dAttrs{Stride: []int{2, 2}, Groups: new(3)}))
//	y = op.Mul(op.Sum(y, op.SumAttrs{Dim: []int{2, 3}, Keepdim: true}), 0.5)
//
// The arguments of a function are the operands in aten's order, then the required attributes, then an optional struct
// of the other attributes. A zero field of the struct means aten's default. If the default is not Go's zero value, the
// field is a pointer, so that 0 can be given. A function returns the results of the op, or a slice of results if their
// number depends on the call.
//
// An operand that may be a number accepts Go's numbers and bools, which promote as Python's do. An optional tensor may
// be nil, and an optional operand that may be a number may be [None]. Attributes may be values of the graph, which are
// read when the graph runs. A required integer attribute accepts such a value directly. Other attributes are given by
// name in the field Values of the struct.
//
// Each call infers shapes and dtypes. [graph.Graph.Err] returns all mistakes, with the file and line of the call. A
// call that depends on a mistake has no effect. A function adds its node to the graph of its operands. A function
// without operands has the graph as its first argument. A call without any value of a graph panics, because no graph
// can record the mistake.
//
// The list below has one line for each op and one for its struct. "go doc op.Conv2d" and "go doc op.Conv2dAttrs" show
// their documentation, and "graphrun ops conv2d" also shows dtypes and examples. The packages under kernels list the
// ops by family: pointwise (element-wise), view (shapes, copies, joins, new values), reduce (sums, norms, losses),
// index (gathers and scatters), product, conv, pool, window (resizing), recurrent, fourier, control (branches and
// loops) and quantized.
//
// The functions find their ops by name in the graph's own catalogue. [graph.Graph.Apply] adds nodes of ops that have no
// function here.
package op

//go:generate go run ../kernels/internal/genbuilder -functions ops_gen.go -list list_gen_test.go -names ../internal/suggest/opnames_gen.go

import (
	"reflect"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// Number is a Go number or bool.
type Number interface {
	bool | int | int32 | int64 | float32 | float64 | complex64 | complex128 | tensor.Scalar
}

// Operand is a value of the graph, or a plain number.
type Operand interface{ *graph.Value | Number }

// Optional is an [Operand], or [None].
type Optional interface{ Operand | Absent }

// Absent is the type of [None].
type Absent struct{}

// None is an absent operand.
var None Absent

// Int is an integer attribute: a number, or a value of the graph.
type Int interface{ int | *graph.Value }

// Ints is an attribute that is a list of integers: numbers, or a value of the graph.
type Ints interface{ []int | *graph.Value }

// IntOrInts is an attribute that is one integer or a list, with different meanings: see [graph.IntOrInts].
type IntOrInts interface{ int | []int | *graph.Value }

// Scalar returns a plain number in the form of attributes.
func Scalar[N Number](x N) tensor.Scalar {
	s, _ := tensor.ScalarOf(x)
	return s
}

// nonzeroAttrs returns the nonzero fields of structs of optional attributes. Fields of later structs override fields of
// earlier structs.
func nonzeroAttrs[A any](list []A) graph.Attrs {
	attrs := graph.Attrs{}
	for i := range list {
		structValue := reflect.ValueOf(&list[i]).Elem()
		for k := range structValue.NumField() {
			field := structValue.Field(k)
			switch content := field.Interface().(type) {
			case map[string]*graph.Value:
				for name, value := range content {
					attrs[name] = graph.ValueRef{Value: value}
				}
			case map[string]tensor.Scalar: // attributes of any name
				for name, number := range content {
					attrs[name] = number
				}
			default:
				if !field.IsZero() {
					attrs[structValue.Type().Field(k).Tag.Get("attr")] = schemaValue(field)
				}
			}
		}
	}
	return attrs
}

// schemaValue returns an attribute in the form that schemas decode.
func schemaValue(v reflect.Value) any {
	if v.Kind() == reflect.String {
		return v.String() // may have a named type
	}
	return v.Interface()
}

// withRequired adds required attributes to attrs and returns it. pairs has a name and a value for each attribute.
func withRequired(attrs graph.Attrs, pairs ...any) graph.Attrs {
	if attrs == nil {
		attrs = graph.Attrs{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, content := pairs[i].(string), schemaValue(reflect.ValueOf(pairs[i+1]))
		if value, ok := content.(*graph.Value); ok {
			content = graph.ValueRef{Value: value}
		}
		attrs[name] = content
	}
	return attrs
}

// node adds a node to the graph of its operands and returns its outputs. count is the number of outputs, or 0 if this
// number depends on the call.
func node(op string, count int, attrs graph.Attrs, operands ...any) []*graph.Value {
	args := flattenOperands(operands)
	for _, arg := range args {
		if value, ok := arg.(*graph.Value); ok && value != nil {
			return add(value.Graph(), op, count, attrs, args)
		}
	}
	for _, attr := range attrs {
		if ref, ok := attr.(graph.ValueRef); ok && ref.Value != nil {
			return add(ref.Value.Graph(), op, count, attrs, args)
		}
	}
	panic("op: " + op + " was given no value of a graph")
}

// nodeIn adds a node to g and returns its outputs, as node does. It is for ops without operands, whose graph the
// operands cannot give.
func nodeIn(g *graph.Graph, op string, count int, attrs graph.Attrs, operands ...any) []*graph.Value {
	if g == nil {
		panic("op: " + op + " was given no graph")
	}
	return add(g, op, count, attrs, flattenOperands(operands))
}

// add adds a node to a graph and returns its outputs. count is the number of outputs, or 0 for any number.
func add(g *graph.Graph, op string, count int, attrs graph.Attrs, args []any) []*graph.Value {
	if count == 0 {
		return g.Apply(op, attrs, args...)
	}
	return g.ApplyExactly(op, count, attrs, args...)
}

// flattenOperands returns a list of all operands, in which lists of values are expanded.
func flattenOperands(operands []any) []any {
	args := make([]any, 0, len(operands))
	for _, operand := range operands {
		switch list := operand.(type) {
		case []*graph.Value:
			for _, value := range list {
				args = append(args, value)
			}
		case Absent:
			args = append(args, nil)
		default:
			args = append(args, operand)
		}
	}
	return args
}

// overloaded adds a node and returns its outputs, as node does. It is for ops whose last operands may be numbers in an
// overload of aten. names are the names of these operands. A number becomes an attribute of that name, because aten's
// rules for numbers differ from its rules for tensors.
func overloaded(op string, attrs graph.Attrs, names []string, operands ...any) []*graph.Value {
	first := len(operands) - len(names)
	numbers := graph.Attrs{}
	for i, name := range names {
		switch operand := operands[first+i].(type) {
		case Absent:
		case *graph.Value: // not the overload for numbers
			return node(op, 1, attrs, operands...)
		default:
			numbers[name] = operand
		}
	}
	for name, number := range numbers {
		attrs = withRequired(attrs, name, number)
	}
	return node(op, 1, attrs, operands[:first]...)
}
