package kernels_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// selectionValue is a tensor of testdata/selection.json; complex numbers are pairs.
type selectionValue struct {
	DType          string
	Shape, Strides []int
	Data           []any
}

func (v *selectionValue) tensor() (*tensor.Tensor, error) {
	d, err := tensor.ParseDType(v.DType)
	if err != nil {
		return nil, err
	}
	t, i := tensor.Empty(tensor.Meta{DType: d, Shape: v.Shape, Strides: v.Strides}), 0
	next := func() tensor.Scalar {
		x := v.Data[i]
		i++
		switch x := x.(type) {
		case bool:
			return tensor.BoolScalar(x)
		case string:
			return tensor.FloatScalar(math.NaN())
		}
		return tensor.FloatScalar(x.(float64))
	}
	kit.EachIndex(v.Shape, func(at []int) {
		s := next()
		if d.IsComplex() {
			s = tensor.ComplexScalar(complex(s.Float(), next().Float()))
		}
		t.Set(s, at...)
	})
	return t, nil
}

// TestSelectionTorch compares kernels with PyTorch's values, and layouts where the case has them.
func TestSelectionTorch(t *testing.T) {
	testsize.Long(t)
	raw, err := os.ReadFile("testdata/selection.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Op      string
		Attrs   graph.Attrs
		In, Out []*selectionValue
		Layout  bool
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(c.Op, "/", i), func(t *testing.T) {
			op := kernels.Lookup(c.Op)
			var in []*tensor.Tensor
			var metas []tensor.Meta
			for _, v := range c.In {
				if v == nil {
					in, metas = append(in, nil), append(metas, tensor.Meta{})
					continue
				}
				x, err := v.tensor()
				if err != nil {
					t.Fatal(err)
				}
				in, metas = append(in, x), append(metas, x.Meta)
			}
			call, err := kerneltest.CallOf(op, c.Attrs, metas)
			if err != nil {
				t.Fatal(err)
			}
			if c.Op == "masked_fill" {
				call.In = append(call.In, graph.Arg{Kind: graph.NumberArg, Number: tensor.FloatScalar(1.5)})
				in = append(in, nil)
			}
			got, err := kerneltest.RunCall(op, call, in)
			if err != nil {
				t.Fatal(err)
			}
			var wants []*tensor.Tensor
			for k, v := range c.Out {
				want, err := v.tensor()
				if err != nil {
					t.Fatal(err)
				}
				wants = append(wants, want)
				if c.Layout && !slices.Equal(got[k].Strides, want.Strides) {
					t.Errorf("%v %v: result %d: got strides %v, want %v", c.Attrs, metas, k, got[k].Strides, want.Strides)
				}
			}
			if err := kerneltest.CompareTorch(op, call, in, got[:len(wants)], wants); err != nil {
				t.Errorf("%v %v: %v", c.Attrs, metas, err)
			}
		})
	}
}
