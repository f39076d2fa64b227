package op

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// listed is a function of the package, for values as operands and attributes, and for plain numbers.
type listed struct {
	op, overload    string
	values, numbers any
}

func TestEveryOpHasAFunction(t *testing.T) {
	plain := map[string]bool{}
	for _, f := range functions {
		plain[f.op] = plain[f.op] || f.overload == ""
	}
	for _, o := range kernels.All() {
		assert.True(t, plain[o.Name], "package op has no function for %s: go generate ./op", o.Name)
	}
}

// TestFunctionsAddWhatApplyAdds calls every function with the examples of its op, and compares the node with what
// Apply adds: attributes that are left out have aten's defaults, and the others arrive.
func TestFunctionsAddWhatApplyAdds(t *testing.T) {
	called := 0
	for _, f := range functions {
		o := kernels.Lookup(f.op)
		for i, ex := range o.Examples {
			if f.overload != "" || !expressible(o, ex) {
				continue
			}
			g, h := graph.New("g", kernels.Lookup), graph.New("h", kernels.Lookup)
			want := h.Apply(f.op, ex.Attrs, operands(h, ex)...)
			require.NoError(t, h.Err(), "%s example %d", f.op, i)
			got := call(t, g, o, f, ex)
			if !assert.NoError(t, g.Err(), "%s example %d", f.op, i) || !assert.Len(t, got, len(want), f.op) {
				continue
			}
			called++
			n, m := got[0].Node, want[0].Node
			assert.Equal(t, m.Attrs, n.Attrs, "%s example %d", f.op, i)
			require.Len(t, n.In, len(m.In), f.op)
			for k := range got {
				assert.Equal(t, want[k].Meta, got[k].Meta, "%s example %d, value %d", f.op, i, k)
			}
		}
	}
	assert.Greater(t, called, len(functions), "examples that were called")
}

// expressible reports whether an example has no attribute that stands for an operand, and none of an overload:
// those are tested one by one.
func expressible(o *graph.Op, ex graph.Example) bool {
	for i, p := range o.Params {
		if p.Overload != "" && i < len(ex.In) {
			return false
		}
		if _, ok := ex.Attrs[p.Name]; ok || ex.Attrs[p.Attr] != nil && p.Attr != "" {
			return false
		}
	}
	return true
}

func operands(g *graph.Graph, ex graph.Example) []any {
	var list []any
	for i, m := range ex.In {
		if m.DType == tensor.Invalid {
			list = append(list, nil)
			continue
		}
		list = append(list, g.InputMeta(fmt.Sprint("x", i), m))
	}
	return list
}

// call calls a function with an example's operands as values and its attributes as numbers.
func call(t *testing.T, g *graph.Graph, o *graph.Op, f listed, ex graph.Example) []*graph.Value {
	t.Helper()
	decoded, err := o.Schema.Decode(ex.Attrs, nil)
	require.NoError(t, err, f.op)
	attrs := map[string]reflect.Value{}
	for i, field := range o.Schema.Fields {
		attrs[field.Name] = reflect.ValueOf(decoded).Elem().Field(i)
	}
	if o.Schema.Additional != nil {
		attrs["*"] = reflect.ValueOf(decoded).Elem().FieldByName("Numbers")
	}
	fn := reflect.ValueOf(f.values)
	if numbers := reflect.ValueOf(f.numbers); o.Params == nil {
		fn = numbers
	}
	var args []reflect.Value
	var required []graph.Field
	for _, field := range o.Schema.Fields {
		if field.Required {
			required = append(required, field)
		}
	}
	in := operands(g, ex)
	for i := range fn.Type().NumIn() {
		p := fn.Type().In(i)
		switch {
		case i == 0 && p == reflect.TypeFor[*graph.Graph]():
			args = append(args, reflect.ValueOf(g))
		case fn.Type().IsVariadic() && i == fn.Type().NumIn()-1:
			args = append(args, structOf(t, p.Elem(), ex, attrs))
		case len(args) < fn.Type().NumIn()-len(required)-variadic(fn.Type()):
			args = append(args, operand(p, &in))
		default:
			field := required[0]
			required = required[1:]
			args = append(args, attribute(t, g, p, field.Name, attrs[field.Name]))
		}
	}
	var out []*graph.Value
	for _, r := range fn.Call(args) {
		switch x := r.Interface().(type) {
		case *graph.Value:
			out = append(out, x)
		case []*graph.Value:
			out = append(out, x...)
		}
	}
	return out
}

func variadic(f reflect.Type) int {
	if f.IsVariadic() {
		return 1
	}
	return 0
}

// operand takes the next operand, or the list of all that are left.
func operand(p reflect.Type, in *[]any) reflect.Value {
	if p == reflect.TypeFor[[]*graph.Value]() {
		list := []*graph.Value{}
		for _, x := range *in {
			v, _ := x.(*graph.Value)
			list = append(list, v)
		}
		*in = nil
		return reflect.ValueOf(list)
	}
	if len(*in) == 0 || (*in)[0] == nil {
		*in = (*in)[min(1, len(*in)):]
		return reflect.Zero(p)
	}
	v := reflect.ValueOf((*in)[0])
	*in = (*in)[1:]
	return v
}

// attribute returns a decoded attribute as a parameter or a field takes it. One that may be a value of the graph is
// given as a constant.
func attribute(t *testing.T, g *graph.Graph, p reflect.Type, name string, v reflect.Value) reflect.Value {
	t.Helper()
	switch x := v.Interface().(type) {
	case sym.Int:
		n, _ := x.Known()
		v = reflect.ValueOf(n)
	case *sym.Int:
		n, _ := x.Known()
		v = reflect.ValueOf(&n)
	case graph.IntsOrWord:
		n, _ := tensor.Type{Shape: x.Ints, Strides: x.Ints}.Meta()
		if v = reflect.ValueOf(n.Shape); p.Kind() == reflect.String {
			v = reflect.ValueOf(x.Word)
		}
	case graph.NumberOrWord:
		if v = reflect.ValueOf(x.Number); p.Kind() == reflect.String {
			v = reflect.ValueOf(x.Word)
		}
	case []sym.Int:
		n, _ := tensor.Type{Shape: x, Strides: x}.Meta()
		v = reflect.ValueOf(n.Shape)
	case graph.NumberOrSize:
		v = reflect.ValueOf(x.Number)
	case graph.IntOrInts:
		if v = reflect.ValueOf(x.One.Hint()); x.List != nil {
			n, _ := tensor.Type{Shape: x.List, Strides: x.List}.Meta()
			v = reflect.ValueOf(n.Shape)
		}
	}
	switch {
	case p == reflect.TypeFor[*graph.Value]():
		return reflect.ValueOf(g.Constant("attr_"+name, integers(t, v)))
	case v.Type().AssignableTo(p):
		return v
	case v.Type().ConvertibleTo(p) && (p.Kind() == reflect.String || p.Kind() == reflect.Slice):
		return v.Convert(p)
	case p.Kind() == reflect.Pointer && v.Type() == p.Elem():
		x := reflect.New(p.Elem())
		x.Elem().Set(v)
		return x
	case p.Kind() == reflect.Float64 && v.Type() == reflect.TypeFor[tensor.Scalar]():
		return reflect.ValueOf(v.Interface().(tensor.Scalar).Float())
	}
	if v.Kind() == reflect.Pointer && v.Type().Elem() == p && !v.IsNil() {
		return v.Elem()
	}
	t.Fatalf("attribute %s is %v, and a %v is wanted", name, v.Type(), p)
	return v
}

func integers(t *testing.T, v reflect.Value) *tensor.Tensor {
	t.Helper()
	if v.Kind() == reflect.Int {
		return tensor.IntScalar(v.Int()).Tensor(tensor.Int64)
	}
	list := []int64{}
	for i := range v.Len() {
		list = append(list, v.Index(i).Int())
	}
	x, err := tensor.FromSlice(list, len(list))
	require.NoError(t, err)
	return x
}

// structOf fills in the attributes that an example gives.
func structOf(t *testing.T, s reflect.Type, ex graph.Example, attrs map[string]reflect.Value) reflect.Value {
	t.Helper()
	out := reflect.New(s).Elem()
	for i := range s.NumField() {
		name := s.Field(i).Tag.Get("attr")
		if name == "*" {
			out.Field(i).Set(attrs[name])
			continue
		}
		if _, ok := ex.Attrs[name]; ok {
			out.Field(i).Set(attribute(t, nil, s.Field(i).Type, name, attrs[name]))
		}
	}
	return out
}

// TestFieldsThatAreLeftOut: what a struct leaves out is not given, and what it says is, also where that is zero.
func TestFieldsThatAreLeftOut(t *testing.T) {
	assert.Empty(t, nonzeroAttrs([]SoftplusAttrs{{}}))
	assert.Equal(t, graph.Attrs{"beta": new(0.0)}, nonzeroAttrs([]SoftplusAttrs{{Beta: new(0.0)}}))
	assert.Equal(t, graph.Attrs{"padding": "same", "stride": []int{}},
		nonzeroAttrs([]Conv2dAttrs{{PaddingWord: Conv2dPaddingSame, Stride: []int{}}}))
	assert.Equal(t, graph.Attrs{"dim": []int{1}, "keepdim": true},
		nonzeroAttrs([]SumAttrs{{Dim: []int{0}}, {Dim: []int{1}, Keepdim: true}}))
	assert.Equal(t, graph.Attrs{"params": []string{"a"}, "k": Scalar(2)},
		nonzeroAttrs([]PointwiseAttrs{{Params: []string{"a"}, Numbers: map[string]tensor.Scalar{"k": Scalar(2)}}}))
	for _, f := range functions {
		typ := reflect.TypeOf(f.numbers)
		if !typ.IsVariadic() {
			continue
		}
		s := typ.In(typ.NumIn() - 1).Elem()
		o := kernels.Lookup(f.op)
		for i, field := range o.Schema.Fields {
			at, ok := s.FieldByName(fieldName(s, field.Name))
			if field.Required || !ok {
				continue
			}
			// A field without a pointer has a default that is Go's zero value, or a zero value that says nothing.
			v, hasDefault := field.DefaultValue()
			if k := at.Type.Kind(); hasDefault && (k == reflect.Int || k == reflect.Float64 || k == reflect.Bool) {
				assert.True(t, v == int64(0) || v == false, "%s: attribute %d, %s, is %v when left out", f.op, i, field.Name, v)
			}
		}
	}
}

func fieldName(s reflect.Type, attr string) string {
	for i := range s.NumField() {
		if s.Field(i).Tag.Get("attr") == attr {
			return s.Field(i).Name
		}
	}
	return ""
}

func TestNumbersAndOverloads(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, b := g.Input("x", tensor.Float32, 2, 3), g.Input("b", tensor.Float32, 3)
	for want, v := range map[string]*graph.Value{
		"mul [x 0.5]": Mul(x, 0.5), "rsub [x 2]": Rsub(x, 2), "pow [2 x]": Pow(2, x), "add [x true]": Add(x, true),
		"clamp [x] min:1 max:none":           Clamp(x, 1, None),
		"clamp [x] min:-1 max:2.5":           Clamp(x, -1, 2.5),
		"clamp [x none b] min:none max:none": Clamp(x, None, b),
		"lerp [x x] weight:0.25":             Lerp(x, x, 0.25),
		"masked_fill [x x 7]":                MaskedFill(x, Gt(x, 0), 7),
	} {
		require.NoError(t, g.Err(), want)
		assert.True(t, strings.HasPrefix(described(v.Node), strings.Split(want, " ")[0]), want)
		if !strings.HasPrefix(want, "masked_fill") {
			assert.Equal(t, want, described(v.Node))
		}
	}
	y := RepeatInterleaveTensor(x, g.Input("n", tensor.Int64, 6))
	assert.True(t, y.Dynamic)
	values, indices := Topk(x, 2, TopkAttrs{Dim: new(0)})
	assert.Equal(t, []int{2, 3}, values.Meta.Shape)
	assert.Equal(t, tensor.Int64, indices.Meta.DType)
	require.NoError(t, g.Err())
}

// described is a node's op, operands, and the scalars among its attributes that may be operands.
func described(n *graph.Node) string {
	var in []string
	for _, a := range n.In {
		switch a.Kind {
		case graph.TensorArg:
			in = append(in, a.Value.Name)
		case graph.NumberArg:
			in = append(in, a.Number.String())
		default:
			in = append(in, "none")
		}
	}
	text := fmt.Sprintf("%s [%s]", n.Op.Name, strings.Join(in, " "))
	for i, f := range n.Op.Schema.Fields {
		if s, ok := reflect.ValueOf(n.Attrs).Elem().Field(i).Interface().(tensor.Scalar); ok && f.Default == "none" {
			text += fmt.Sprintf(" %s:%s", f.Name, s)
		}
	}
	return text
}

func TestAttributesThatAreValues(t *testing.T) {
	g := graph.New("g", kernels.Lookup)
	x, k := g.Input("x", tensor.Float32, 6), g.Input("k", tensor.Int64)
	two := g.Constant("two", tensor.Must(tensor.FromSlice([]int64{2, 3}, 2)))
	assert.Equal(t, []int{2, 3}, Reshape(x, two).Meta.Shape)
	top, _ := Topk(x, k)
	assert.True(t, top.Dynamic)
	part := Slice(x, SliceAttrs{Values: map[string]*graph.Value{"end": k}})
	assert.True(t, part.Dynamic)
	assert.Equal(t, []*graph.Value{k}, part.Node.AttrRefs())
	assert.Equal(t, []int{2, 3}, Zeros(g, two).Meta.Shape)
	require.NoError(t, g.Err())
}

// Functions without operands that make sense give a mistake, or say that there is no graph; nothing else.
func TestFunctionsOnNothing(t *testing.T) {
	for _, f := range functions {
		for _, one := range []any{f.values, f.numbers} {
			fn := reflect.ValueOf(one)
			for _, x := range []*graph.Value{nil, graph.New("g", kernels.Lookup).Input("x", tensor.Float32, 2)} {
				callOn(t, f.op, fn, x)
			}
		}
	}
}

func callOn(t *testing.T, op string, fn reflect.Value, x *graph.Value) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && !strings.HasPrefix(fmt.Sprint(r), "op: ") {
			t.Errorf("%s panics: %v", op, r)
		}
	}()
	var args []reflect.Value
	for i := range fn.Type().NumIn() {
		p := fn.Type().In(i)
		switch {
		case fn.Type().IsVariadic() && i == fn.Type().NumIn()-1:
			continue
		case x != nil && p == reflect.TypeFor[*graph.Value]():
			args = append(args, reflect.ValueOf(x))
		case x != nil && p == reflect.TypeFor[*graph.Graph]() && i == 0:
			args = append(args, reflect.ValueOf(x.Graph()))
		default:
			args = append(args, reflect.Zero(p))
		}
	}
	fn.Call(args)
}
