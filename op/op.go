// Package op adds nodes to graphs: one function for each op of the catalogue, with its operands and attributes
// as parameters, so that the Go compiler sees mistakes.
//
//	g := graph.New("net", kernels.Lookup)
//	x := g.Input("x", tensor.Float32, 1, 3, 224, 224)
//	y := op.Relu(op.Conv2d(x, w, bias, op.Conv2dAttrs{Stride: []int{2, 2}, Groups: new(3)}))
//	y = op.Mul(op.Sum(y, op.SumAttrs{Dim: []int{2, 3}, Keepdim: true}), 0.5)
//
// Operands come first, in aten's order, then the attributes that must be given, then a struct of the others, which
// may be left out. A field of it that is left out (nil, zero) has aten's default; fields whose default is another
// value than Go's zero value are pointers, so that 0 differs from no value. A function returns the values that
// the op makes, or a slice of them where their number depends on the call.
//
// An operand that may be a number takes Go's numbers and bools, which promote as Python's do; an optional tensor
// may be nil, and an optional operand that may be a number [None]. Attributes that must be given may be values of
// the graph where they are integers, others are named under Values in the struct: they are then read when the
// graph runs.
//
// Shapes and dtypes are inferred by each call. [graph.Graph.Err] returns all mistakes, with the file and line of the
// call; calls that depend on a mistake have no effect. The graph is that of the operands; functions without operands
// take it as the first argument. A call without any value of a graph panics, because no graph can record the mistake.
//
// The list below has a line for each op and one for its struct: "go doc op.Conv2d" and "go doc op.Conv2dAttrs"
// show one of them whole, and "graphrun ops conv2d" also its dtypes and examples. By family the ops are listed in
// the packages under kernels: pointwise (element by element), view (shapes, copies, joins, fresh values), reduce
// (sums, norms, losses), index (gathers and scatters), product, conv, window (pools, resizing), sequence (recurrent
// layers, transforms, control flow) and quantized.
//
// The functions find their ops by name in the graph's own catalogue. Ops that are not in the one that they were
// generated from are added by [graph.Graph.Apply].
package op

//go:generate go run ../kernels/internal/genbuilder -functions ops_gen.go -list list_gen_test.go -names ../graph/names_gen.go

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

// None stands for an operand that is left out.
var None Absent

// Int is an attribute: an integer, or a value of the graph that it is read from.
type Int interface{ int | *graph.Value }

// Ints is an attribute: a list of integers, or a value of the graph that they are read from.
type Ints interface{ []int | *graph.Value }

// IntOrInts is an attribute that is one integer or a list, which mean different things.
type IntOrInts interface{ int | []int | *graph.Value }

// Scalar returns a plain number, as attributes hold it.
func Scalar[N Number](x N) tensor.Scalar {
	s, _ := tensor.ScalarOf(x)
	return s
}

// given collects the attributes of structs that hold the optional ones; a field that is left out is not among
// them. Of several structs later ones override.
func given[A any](list []A) graph.Attrs {
	attrs := graph.Attrs{}
	for i := range list {
		v := reflect.ValueOf(&list[i]).Elem()
		for k := range v.NumField() {
			f := v.Field(k)
			switch x := f.Interface().(type) {
			case map[string]*graph.Value:
				for name, x := range x {
					attrs[name] = graph.Ref{Value: x}
				}
			case map[string]tensor.Scalar: // of any name
				for name, x := range x {
					attrs[name] = x
				}
			default:
				if !f.IsZero() {
					attrs[v.Type().Field(k).Tag.Get("attr")] = plain(f)
				}
			}
		}
	}
	return attrs
}

// plain returns an attribute as schemas take it.
func plain(v reflect.Value) any {
	if v.Kind() == reflect.String {
		return v.String() // of a type of its own, whose words are constants
	}
	return v.Interface()
}

// with adds attributes that must be given, as pairs of name and value.
func with(attrs graph.Attrs, pairs ...any) graph.Attrs {
	if attrs == nil {
		attrs = graph.Attrs{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		v := plain(reflect.ValueOf(pairs[i+1]))
		if x, ok := v.(*graph.Value); ok {
			v = graph.Ref{Value: x}
		}
		attrs[pairs[i].(string)] = v
	}
	return attrs
}

// node adds a node to the graph of its operands and returns its count outputs; 0 stands for as many as there are.
func node(op string, count int, attrs graph.Attrs, operands ...any) []*graph.Value {
	args := flat(operands)
	for _, a := range args {
		if v, ok := a.(*graph.Value); ok && v != nil {
			return add(v.Graph(), op, count, attrs, args)
		}
	}
	for _, a := range attrs {
		if r, ok := a.(graph.Ref); ok && r.Value != nil {
			return add(r.Value.Graph(), op, count, attrs, args)
		}
	}
	panic("op: " + op + " was given no value of a graph")
}

// nodeIn is node for a graph that is given.
func nodeIn(g *graph.Graph, op string, count int, attrs graph.Attrs, operands ...any) []*graph.Value {
	if g == nil {
		panic("op: " + op + " was given no graph")
	}
	return add(g, op, count, attrs, flat(operands))
}

func add(g *graph.Graph, op string, count int, attrs graph.Attrs, args []any) []*graph.Value {
	if count == 0 {
		return g.Apply(op, attrs, args...)
	}
	return g.ApplyExactly(op, count, attrs, args...)
}

// flat joins single operands and lists.
func flat(operands []any) []any {
	args := make([]any, 0, len(operands))
	for _, o := range operands {
		switch x := o.(type) {
		case []*graph.Value:
			for _, v := range x {
				args = append(args, v)
			}
		case Absent:
			args = append(args, nil)
		default:
			args = append(args, o)
		}
	}
	return args
}

// overloaded is node for an op whose last operands have overloads in aten that take numbers alone: those are
// attributes of the given names, and follow other rules than tensors.
func overloaded(op string, attrs graph.Attrs, names []string, operands ...any) []*graph.Value {
	first := len(operands) - len(names)
	numbers := graph.Attrs{}
	for i, name := range names {
		switch x := operands[first+i].(type) {
		case Absent:
		case *graph.Value:
			return node(op, 1, attrs, operands...)
		default:
			numbers[name] = x
		}
	}
	for name, x := range numbers {
		attrs = with(attrs, name, x)
	}
	return node(op, 1, attrs, operands[:first]...)
}
