package kernels_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestProductVectors compares layouts and errors with those of PyTorch 1.13.
func TestProductVectors(t *testing.T) {
	files := []string{"testdata/products.json"}
	if f := os.Getenv("PRODUCT_VECTORS"); f != "" {
		files = append(files, f)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Op    string
			In    [][]any
			Attrs graph.Attrs
			Out   []any
			Error string
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		bad := 0
		for i, c := range cases {
			in := make([]*tensor.Tensor, len(c.In))
			for k, m := range c.In {
				if m != nil {
					in[k] = tensor.Empty(vectorMeta(t, m))
				}
			}
			p, err := kerneltest.NewProductCall(c.Op, c.Attrs, in)
			switch {
			case err != nil && c.Error == "":
				t.Errorf("%s:%d: %s rejected: %v; want %v", f, i+2, c.Op, err, c.Out)
			case err == nil && c.Error != "":
				t.Errorf("%s:%d: %s gave %v, want error %s", f, i+2, c.Op, p.Call.Out[0], c.Error)
			case err != nil && err.Error() != c.Error:
				t.Errorf("%s:%d: %s error %q, want %q", f, i+2, c.Op, err, c.Error)
			case err == nil && !sameMeta(p.Call.Out[0], vectorMeta(t, c.Out)):
				t.Errorf("%s:%d: %s gave %v, want %v", f, i+2, c.Op, p.Call.Out[0], c.Out)
			default:
				continue
			}
			if bad++; bad > 40 {
				t.FailNow()
			}
		}
	}
}

func sameMeta(a, b tensor.Meta) bool { return a.DType == b.DType && a.SameLayout(b) }

func vectorMeta(t *testing.T, v []any) tensor.Meta {
	d, err := tensor.ParseDType(v[0].(string))
	if err != nil {
		t.Fatal(err)
	}
	ints := func(x any) []int {
		out := []int{}
		for _, n := range x.([]any) {
			out = append(out, int(n.(float64)))
		}
		return out
	}
	return tensor.Meta{DType: d, Shape: ints(v[1]), Strides: ints(v[2])}
}
