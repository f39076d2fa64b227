package window_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// torchVolume is a call whose results testdata/volumes.py computed with PyTorch.
type torchVolume struct {
	Op     string
	Attrs  map[string]any
	Shapes [][]int
	Ints   []int
	Out    []struct {
		Shape, Strides []int
		Data           []float64
	}
}

// TestVolumesAgainstTorch compares pools, convolutions, recurrent layers, losses and attention with the results of
// PyTorch 1.13.
func TestVolumesAgainstTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/volumes.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []torchVolume
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		var in []*tensor.Tensor
		for k, shape := range c.Shapes {
			in = append(in, torchOperand(k, shape, slices.Contains(c.Ints, k)))
		}
		op, call, err := kerneltest.NewCall(c.Op, graph.Attrs(c.Attrs), in)
		if err != nil {
			t.Errorf("%s %v: %v", c.Op, c.Attrs, err)
			continue
		}
		out, err := kerneltest.RunInFilledMemory(op, call, in, 0x55, false)
		if err != nil || len(out) != len(c.Out) {
			t.Errorf("%s %v: %d results, %v", c.Op, c.Attrs, len(out), err)
			continue
		}
		for i, want := range c.Out {
			if !slices.Equal(out[i].Shape, want.Shape) || !slices.Equal(out[i].Strides, want.Strides) {
				t.Errorf("%s %v: output %d is %v, want %v by %v", c.Op, c.Attrs, i, out[i].Meta, want.Shape, want.Strides)
				continue
			}
			at, bad := 0, 0
			kit.EachIndex(want.Shape, func(index []int) {
				g, w := out[i].At(index...).Float(), want.Data[at]
				if at++; math.Abs(g-w) > 1e-5*(1+math.Abs(w)) && bad == 0 {
					bad++
					t.Errorf("%s %v: output %d at %v: got %v, want %v", c.Op, c.Attrs, i, index, g, w)
				}
			})
		}
	}
}

func torchOperand(k int, shape []int, ints bool) *tensor.Tensor {
	d, i := tensor.Float32, 0
	if ints {
		d = tensor.Int64
	}
	t := tensor.Zeros(d, shape...)
	kit.EachIndex(shape, func(index []int) {
		v := tensor.FloatScalar(float64((i*37+k*17+11)%101-50) / 25)
		if ints {
			v = tensor.IntScalar(int64(i * 7 % 3))
		}
		t.Set(v, index...)
		i++
	})
	return t
}
