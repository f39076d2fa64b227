package endtoend_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/cmplx"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// atenValue is an operand or a result in testdata: a number, or a tensor with its elements in row-major order. A
// complex element is two numbers.
type atenValue struct {
	Number         any
	DType          string
	Shape, Strides []int
	Data           []any
}

// atenCase is a call of PyTorch by a script in testdata.
type atenCase struct {
	Op        string
	In, Out   []*atenValue
	Attrs     graph.Attrs
	Error     string
	AnyLayout bool `json:"any_layout"`
	AnyValues bool `json:"any_values"`
}

func (v *atenValue) tensor() (*tensor.Tensor, error) {
	d, err := tensor.ParseDType(v.DType)
	if err != nil {
		return nil, err
	}
	next := atenScalars(v.Data)
	flat := tensor.Zeros(d, v.Shape...)
	for i := range flat.Numel() {
		s := next()
		if d.IsComplex() {
			s = tensor.ComplexScalar(complex(s.Float(), next().Float()))
		}
		at := make([]int, len(v.Shape))
		for k := len(at) - 1; k >= 0; k-- {
			at[k], i = i%v.Shape[k], i/v.Shape[k]
		}
		flat.Set(s, at...)
	}
	return flat.CopyTo(tensor.Meta{DType: d, Shape: v.Shape, Strides: v.Strides}), nil
}

// atenScalars returns a function that returns the next number of data.
func atenScalars(data []any) func() tensor.Scalar {
	special := map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}
	return func() tensor.Scalar {
		x := data[0]
		data = data[1:]
		switch x := x.(type) {
		case bool:
			return tensor.BoolScalar(x)
		case string:
			return tensor.FloatScalar(special[x])
		case json.Number:
			if i, err := x.Int64(); err == nil {
				return tensor.IntScalar(i)
			}
			f, _ := x.Float64()
			return tensor.FloatScalar(f)
		}
		panic(fmt.Sprint("not a number: ", x))
	}
}

// operand returns a plain number as the builder accepts it.
func (v *atenValue) operand() any {
	if pair, ok := v.Number.([]any); ok {
		next := atenScalars(pair)
		re := next().Float()
		return complex(re, next().Float())
	}
	return atenScalars([]any{v.Number})()
}

// plainNumbers replaces each json.Number in v, and in the lists within it, by an int or a float64.
func plainNumbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return int(i)
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = plainNumbers(x[i])
		}
	}
	return v
}

// TestATen compares calls with PyTorch: dtypes, shapes and strides as inferred, and values of runs and of the
// reference. Calls that PyTorch rejects must be rejected.
func TestATen(t *testing.T) {
	testsize.Long(t)
	files, err := filepath.Glob("testdata/aten_*.json.gz")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		f, err := os.Open(file)
		require.NoError(t, err)
		unzipped, err := gzip.NewReader(f)
		require.NoError(t, err, file)
		dec := json.NewDecoder(unzipped)
		dec.UseNumber()
		var cases []*atenCase
		err = dec.Decode(&cases)
		f.Close()
		require.NoError(t, err, file)
		require.NotEmpty(t, cases, file)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json.gz"), func(t *testing.T) {
			for i, c := range cases {
				if leavesOut(i, 6) {
					continue
				}
				if err := c.check(); err != nil {
					t.Errorf("case %d: %s(%s) %v: %v", i, c.Op, c.operands(), c.Attrs, err)
				}
			}
		})
	}
}

func (c *atenCase) operands() string {
	var s []string
	for _, v := range c.In {
		switch {
		case v == nil:
			s = append(s, "null")
		case v.DType == "":
			s = append(s, fmt.Sprint(v.Number))
		default:
			s = append(s, fmt.Sprint(v.DType, v.Shape, "@", v.Strides))
		}
	}
	return strings.Join(s, ", ")
}

func (c *atenCase) check() error {
	g := graph.New("g", kernels.Lookup)
	in := map[string]*tensor.Tensor{}
	var operands []any
	for i, v := range c.In {
		switch {
		case v == nil:
			operands = append(operands, nil)
		case v.DType == "":
			operands = append(operands, v.operand())
		default:
			x, err := v.tensor()
			if err != nil {
				return err
			}
			name := fmt.Sprint("x", i)
			in[name] = x
			operands = append(operands, g.InputMeta(name, x.Meta))
		}
	}
	for k, v := range c.Attrs {
		c.Attrs[k] = plainNumbers(v)
	}
	out := g.Apply(c.Op, c.Attrs, operands...)
	for i, v := range out {
		g.Output(fmt.Sprint("y", i), v)
	}
	if c.Error != "" {
		return c.refused(g, in)
	}
	if err := g.Err(); err != nil {
		return err
	}
	if len(out) < len(c.Out) {
		return fmt.Errorf("%d results, want %d", len(out), len(c.Out))
	}
	return c.compare(g, in)
}

// refused checks that a call is rejected, when it is added to the graph or when it runs.
func (c *atenCase) refused(g *graph.Graph, in map[string]*tensor.Tensor) error {
	if g.Err() != nil {
		return nil
	}
	r, err := compiled(g, 1)
	if err == nil {
		_, err = r.Run(context.Background(), in)
	}
	if err == nil {
		return fmt.Errorf("is not refused, want: %s", c.Error)
	}
	if _, err = graph.Evaluate(g, in); err == nil {
		return fmt.Errorf("is not refused by reference, want: %s", c.Error)
	}
	return nil
}

func (c *atenCase) compare(g *graph.Graph, in map[string]*tensor.Tensor) error {
	ref, err := graph.Evaluate(g, in)
	if err != nil {
		return fmt.Errorf("by reference: %w", err)
	}
	r, err := compiled(g, 2)
	if err != nil {
		return err
	}
	got, err := r.Run(context.Background(), in)
	if err != nil {
		return err
	}
	for i, v := range c.Out {
		want, err := v.tensor()
		if err != nil {
			return err
		}
		y := fmt.Sprint("y", i)
		if value := g.Outputs[i].Value; !value.Dynamic {
			if err := sameMeta(value.Meta, want.Meta, c.AnyLayout); err != nil {
				return fmt.Errorf("result %d as inferred: %w", i, err)
			}
		}
		if err := sameMeta(got[y].Meta, want.Meta, c.AnyLayout); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
		if c.AnyValues {
			continue
		}
		if err := sameElements(got[y], want); err != nil {
			return fmt.Errorf("result %d: %w", i, err)
		}
		if err := sameElements(ref[y], want); err != nil {
			return fmt.Errorf("result %d by reference: %w", i, err)
		}
	}
	return nil
}

func sameMeta(got, want tensor.Meta, anyLayout bool) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !anyLayout &&
		!slices.Equal(got.Strides, want.Strides) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// sameElements compares elements with a tolerance of a few roundings of the element and of the greatest element, if
// that is below 1: a tensor of small numbers is not close to zeros.
func sameElements(got, want *tensor.Tensor) error {
	if got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("got %v, want %v", got.Meta, want.Meta)
	}
	eps := map[tensor.DType]float64{tensor.Float16: 2e-3, tensor.BFloat16: 1.6e-2, tensor.Float32: 2e-5,
		tensor.Complex64: 5e-5}[got.DType]
	eps = max(eps, 1e-8) // vectors have nine digits
	if got.DType.IsIntegral(true) {
		integers := func(t *tensor.Tensor) []int64 {
			list, _ := tensor.ToSlice[int64](t.CopyTo(tensor.New(tensor.Int64, t.Shape...)))
			return list
		}
		if !slices.Equal(integers(got), integers(want)) {
			return fmt.Errorf("got %v, want %v", integers(got), integers(want))
		}
		return nil
	}
	elements := func(t *tensor.Tensor) []complex128 {
		list, _ := tensor.ToSlice[complex128](t.CopyTo(tensor.New(tensor.Complex128, t.Shape...)))
		return list
	}
	one, wanted := 0.0, elements(want)
	for _, w := range wanted {
		if magnitude := cmplx.Abs(w); magnitude <= math.MaxFloat64 {
			one = max(one, min(1, magnitude))
		}
	}
	for i, g := range elements(got) {
		w, permitted := wanted[i], eps*(one+cmplx.Abs(wanted[i]))
		if !near(real(g), real(w), permitted) || !near(imag(g), imag(w), permitted) {
			return fmt.Errorf("element %d: got %v, want %v", i, g, w)
		}
	}
	return nil
}

func near(g, w, eps float64) bool {
	return g == w || g != g && w != w || !math.IsInf(w, 0) && math.Abs(g-w) <= eps
}
