// Package kerneltest has functions for the tests of several packages of ops. They call ops by name on random operands,
// and compare kernels with references in every layout.
package kerneltest

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"reflect"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// CallOf returns a call of an op with operands of the given metas. The zero Meta stands for an omitted operand.
func CallOf(op *graph.Op, given graph.Attrs, in []tensor.Meta) (*graph.Call, error) {
	a, err := op.Schema.Decode(given, nil)
	if err != nil {
		return nil, err
	}
	c := &graph.Call{Attrs: a}
	for i, m := range in {
		if m.DType == tensor.Invalid {
			c.In = append(c.In, graph.Arg{})
			continue
		}
		c.In = append(c.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: fmt.Sprint("x", i), Meta: m}})
	}
	return c, nil
}

// Infer infers the results of a call and sets c.Out to their metas.
func Infer(op *graph.Op, c *graph.Call) ([]graph.Result, error) {
	res, err := op.Infer(c)
	c.Out = nil
	for _, r := range res {
		c.Out = append(c.Out, r.Meta())
	}
	return res, err
}

// RunCall infers and runs a call and returns its results. Chunks run in descending order. in has nil for an operand
// that is a plain number. layouts overrides the inferred layouts of the first outputs.
func RunCall(op *graph.Op, call *graph.Call, in []*tensor.Tensor, layouts ...tensor.Meta) ([]*tensor.Tensor, error) {
	res, err := Infer(op, call)
	if err != nil {
		return nil, err
	}
	if len(res) > 0 && res[0].Dynamic {
		return op.RunDynamic(nil, call, in)
	}
	if op.Decompose != nil {
		return runParts(op, encodeAttrs(call.Attrs), call.In, in)
	}
	outs := make([]*tensor.Tensor, len(res))
	fresh := false
	for i, r := range res {
		if r.Alias >= 0 {
			if outs[i], err = in[r.Alias].View(r.Meta()); err != nil {
				return nil, err
			}
			continue
		}
		fresh = true
		if i < len(layouts) {
			call.Out[i] = layouts[i]
		}
		outs[i] = tensor.Empty(call.Out[i])
		for k := range outs[i].Storage().Bytes() { // the memory of a run is not cleared
			outs[i].Storage().Bytes()[k] = 0x55
		}
	}
	if !fresh {
		return outs, nil
	}
	k, err := op.Compile(call)
	if err != nil {
		return nil, err
	}
	return outs, RunKernel(k, call, in, outs)
}

// encodeAttrs converts decoded attributes, which are a struct, to attributes by name, as a caller gives them.
func encodeAttrs(attrs any) graph.Attrs {
	a, v := graph.Attrs{}, reflect.ValueOf(attrs).Elem()
	for i := range v.NumField() {
		name, x := v.Type().Field(i).Tag.Get("attr"), v.Field(i)
		number := x.CanInt() || x.CanFloat() || x.Type() == reflect.TypeFor[sym.Int]()
		if name == "" || x.IsZero() && x.Kind() != reflect.Bool && !number {
			continue
		}
		if x.Kind() == reflect.Pointer {
			x = x.Elem()
		}
		a[name] = x.Interface()
		if p, ok := a[name].(graph.IntsOrWord); ok && p.Word != "" {
			a[name] = p.Word
		} else if ok {
			a[name] = p.Ints
		}
	}
	return a
}

// RunParts runs the nodes into which a composite op decomposes, and returns the results. in has nil for an omitted
// operand.
func RunParts(op *graph.Op, a graph.Attrs, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	return runParts(op, a, make([]graph.Arg, len(in)), in)
}

// runParts is RunParts for operands that may be plain numbers.
func runParts(op *graph.Op, a graph.Attrs, given []graph.Arg, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	parts := graph.New("parts", kernels.Lookup)
	vals := map[*graph.Value]*tensor.Tensor{}
	args := make([]any, len(in))
	for i, t := range in {
		if given[i].Kind == graph.NumberArg {
			args[i] = given[i].Number
		} else if t != nil {
			v := parts.Constant(fmt.Sprint("x", i), t)
			args[i], vals[v] = v, t
		}
	}
	out := parts.Apply(op.Name, a, args...)
	if parts.Err() != nil {
		return nil, parts.Err()
	}
	nodes, err := parts.Decompose(out[0].Node)
	if err != nil {
		return nil, err
	}
	for _, node := range nodes {
		var part []*tensor.Tensor
		for _, a := range node.In {
			part = append(part, vals[a.Value])
		}
		made, err := RunCall(node.Op, &graph.Call{In: node.In, Attrs: node.Attrs}, part)
		if errors.Is(err, graph.ErrNoImpl) { // use row-major copies of the operands, as plans do
			if made, err = RunCall(node.Op, &graph.Call{In: rowMajor(part), Attrs: node.Attrs}, part); err == nil {
				made[0] = made[0].CopyTo(node.Out[0].Meta)
			}
		}
		if err != nil {
			return nil, err
		}
		for i, v := range node.Out {
			vals[v] = made[i]
		}
	}
	var made []*tensor.Tensor
	for _, v := range out {
		made = append(made, vals[v])
	}
	return made, nil
}

// rowMajor replaces the tensors of the list by row-major copies, and returns operands with the layouts of the copies.
func rowMajor(list []*tensor.Tensor) []graph.Arg {
	args := make([]graph.Arg, len(list))
	for i, t := range list {
		if t != nil {
			list[i] = t.CopyTo(tensor.New(t.DType, t.Shape...))
			args[i] = graph.ArgOf(&graph.Value{Meta: list[i].Meta})
		}
	}
	return args
}

// CompileAny compiles a call with operands in any layouts. If no implementation reads the layouts without a copy,
// CompileAny uses the last implementation that supports the call. It packs constants and replaces them in the call.
func CompileAny(op *graph.Op, call *graph.Call) (*graph.Kernel, error) {
	if !slices.ContainsFunc(op.Impls, func(m graph.Impl) bool { return m.Pack != nil }) && len(op.Impls) < 2 {
		return op.Compile(call)
	}
	impl := op.Fitting(call)
	for i := len(op.Impls) - 1; i >= 0 && impl == nil; i-- {
		if m := &op.Impls[i]; !m.Inexact && len(m.Walks(call, nil)) > 0 {
			impl = m
		}
	}
	if impl == nil {
		return nil, graph.ErrNoImpl
	}
	for i, a := range call.In {
		if impl.Pack == nil || call.Const(i) == nil {
			continue
		}
		if form, ok := impl.Pack(call, i); ok {
			v, err := graph.PackConstant(a.Value, form)
			if err != nil {
				return nil, err
			}
			call.In[i].Value = v
		}
	}
	return impl.Lower(call)
}

// DataOf returns the address of operand i of a call.
func DataOf(c *graph.Call, i int, in []*tensor.Tensor) unsafe.Pointer {
	switch {
	case c.Packed(i) != nil:
		return c.In[i].Value.Const.Pointer()
	case in[i] != nil:
		return in[i].Pointer()
	}
	return nil
}

// MemOf returns the memory of a run of a kernel on the given operands and outputs.
func MemOf(kernel *graph.Kernel, c *graph.Call, in, outs []*tensor.Tensor) *graph.Mem {
	mem := &graph.Mem{Scratch: tensor.NewStorage(kernel.Scratch).Bytes(),
		WorkerScratch: tensor.NewStorage(kernel.WorkerScratch).Bytes()}
	for _, t := range outs {
		mem.Ptrs = append(mem.Ptrs, t.Pointer())
	}
	for i := range c.In {
		p := DataOf(c, i, in)
		if kernel.EmbeddedOperands != nil && kernel.EmbeddedOperands[i] != nil {
			p = kernel.EmbeddedOperands[i].Pointer()
		}
		mem.Ptrs = append(mem.Ptrs, p)
	}
	return mem
}

// RunKernel runs the phases of a kernel one after another. The chunks of a phase run in descending order.
func RunKernel(k *graph.Kernel, c *graph.Call, in, outs []*tensor.Tensor) error {
	m := MemOf(k, c, in, outs)
	for _, ph := range k.Phases {
		for chunk := ph.Chunks - 1; chunk >= 0; chunk-- {
			if err := ph.Run(m, chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// Filled returns a tensor with the meta m. draw returns the value of an element.
func Filled(m tensor.Meta, draw func(d tensor.DType) tensor.Scalar) *tensor.Tensor {
	t := tensor.Empty(m)
	kit.EachIndex(m.Shape, func(i []int) { t.Set(draw(m.DType), i...) })
	return t
}

// MixedValues returns a function that draws numbers of both signs. It never draws 0, because integer divisions by 0
// fail.
func MixedValues(rng *rand.Rand) func(d tensor.DType) tensor.Scalar {
	sign := func() float64 { return float64(1 - 2*rng.IntN(2)) }
	return func(dtype tensor.DType) tensor.Scalar {
		switch {
		case dtype == tensor.Bool:
			return tensor.BoolScalar(rng.IntN(2) == 0)
		case dtype.IsComplex():
			re := sign() * (0.25 + float64(1.75*rng.Float64()))
			return tensor.ComplexScalar(complex(re, sign()*(0.25+float64(1.75*rng.Float64()))))
		case dtype.IsFloat():
			return tensor.FloatScalar(sign() * (0.25 + float64(1.75*rng.Float64())))
		case dtype.IsSigned():
			return tensor.IntScalar(int64(sign()) * (1 + rng.Int64N(8)))
		}
		return tensor.IntScalar(1 + rng.Int64N(8))
	}
}

// IndexValues is MixedValues, except that integers are 0 or 1, which are valid indices.
func IndexValues(r *rand.Rand) func(d tensor.DType) tensor.Scalar {
	mixed := MixedValues(r)
	return func(d tensor.DType) tensor.Scalar {
		if d.IsIntegral(false) {
			return tensor.IntScalar(r.Int64N(2))
		}
		return mixed(d)
	}
}

// tolerance is the permitted error by dtype, relative to 1 plus the magnitude of the reference's element.
var tolerance = map[tensor.DType]float64{tensor.Float16: 2e-3, tensor.BFloat16: 1.6e-2, tensor.Float32: 2e-5,
	tensor.Float64: 1e-11, tensor.Complex64: 5e-5, tensor.Complex128: 1e-10}

// CompareTensors returns an error for the first element in which got differs from want.
func CompareTensors(got, want *tensor.Tensor) error {
	if got.DType != want.DType || tensor.ListString(got.Shape) != tensor.ListString(want.Shape) {
		return fmt.Errorf("got %v, want %v", got.Meta, want.Meta)
	}
	var err error
	kit.EachIndex(got.Shape, func(i []int) {
		if g, w := got.At(i...), want.At(i...); err == nil && !closeTo(got.DType, g, w) {
			err = fmt.Errorf("at %v: got %v, want %v", i, g, w)
		}
	})
	return err
}

// closeTo reports whether element g is w within the tolerance of the dtype.
func closeTo(dtype tensor.DType, g, w tensor.Scalar) bool {
	switch {
	case dtype.IsComplex():
		a, b := g.Complex(), w.Complex()
		if cmplx.IsNaN(b) || cmplx.IsInf(b) {
			return cmplx.IsNaN(a) || cmplx.IsInf(a)
		}
		return cmplx.Abs(a-b) <= tolerance[dtype]*(1+cmplx.Abs(b))
	case dtype.IsFloat():
		a, b := g.Float(), w.Float()
		return a == b || a != a && b != b || math.Abs(a-b) <= tolerance[dtype]*(1+math.Abs(b))
	}
	return g.Int() == w.Int()
}

// CheckCall runs a call and compares the results with the op's reference.
func CheckCall(op *graph.Op, c *graph.Call, in []*tensor.Tensor, layouts ...tensor.Meta) error {
	got, err := RunCall(op, c, in, layouts...)
	if err != nil {
		return err
	}
	want, err := op.Ref(c, in)
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	if len(want) != len(got) {
		return fmt.Errorf("%d results, the reference gives %d", len(got), len(want))
	}
	for i := range got {
		if err := CompareTensors(got[i], want[i]); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
	}
	return nil
}
