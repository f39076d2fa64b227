//go:build !386 && !arm

package kernels_test

import (
	"math"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/tensor"
)

// TestHugeIntegersThatPyTorchAccepts infers calls with huge integers that are not sizes; PyTorch infers these shapes.
func TestHugeIntegersThatPyTorchAccepts(t *testing.T) {
	const least, greatest = math.MinInt64, math.MaxInt64
	for _, c := range []struct {
		op    string
		attrs graph.Attrs
		want  string // the first result's shape, of an operand [1,1,3,4]
	}{
		{"slice", graph.Attrs{"dim": 3, "start": 1, "end": greatest}, "[1, 1, 3, 3]"},
		{"slice", graph.Attrs{"dim": 3, "start": least, "end": greatest}, "[1, 1, 3, 4]"},
		{"slice", graph.Attrs{"dim": 3, "start": greatest}, "[1, 1, 3, 0]"},
		{"chunk", graph.Attrs{"dim": 2, "chunks": 1 << 62}, "[1, 1, 1, 4]"},
		{"split", graph.Attrs{"dim": 2, "split_size": 1 << 62}, "[1, 1, 3, 4]"},
		{"tril", graph.Attrs{"diagonal": greatest}, "[1, 1, 3, 4]"},
		{"triu", graph.Attrs{"diagonal": greatest}, "[1, 1, 3, 4]"},
		{"diagonal", graph.Attrs{"offset": greatest, "dim1": 2, "dim2": 3}, "[1, 1, 0]"},
		{"diagonal", graph.Attrs{"offset": -greatest, "dim1": 2, "dim2": 3}, "[1, 1, 0]"},
		{"roll", graph.Attrs{"shifts": greatest, "dims": 3}, "[1, 1, 3, 4]"},
		{"round", graph.Attrs{"decimals": 1 << 62}, "[1, 1, 3, 4]"},
		{"clamp", graph.Attrs{"min": least, "max": greatest}, "[1, 1, 3, 4]"},
		{"full_like", graph.Attrs{"fill_value": greatest}, "[1, 1, 3, 4]"},
		{"rand", graph.Attrs{"size": []int{2}, "seed": least}, "[2]"},
		{"randint", graph.Attrs{"low": least, "high": greatest, "size": []int{2}}, "[2]"},
		{"avg_pool2d", graph.Attrs{"kernel_size": 2, "stride": 1, "divisor_override": greatest}, "[1, 1, 2, 3]"},
	} {
		g := graph.New("ranges", kernels.Lookup)
		var operands []any
		if len(kernels.Lookup(c.op).Params) > 0 {
			operands = append(operands, g.Input("x", tensor.Float64, 1, 1, 3, 4))
		}
		out := g.Apply(c.op, c.attrs, operands...)
		if err := g.Err(); err != nil {
			t.Errorf("%s %v: %v", c.op, c.attrs, err)
		} else if got := tensor.ListString(out[0].Meta.Shape); got != c.want {
			t.Errorf("%s %v: the shape is %s, want %s", c.op, c.attrs, got, c.want)
		}
	}
}

// TestReferenceOfNothing checks that references support empty operands with a dimension that is too large for the
// compute dtype.
func TestReferenceOfNothing(t *testing.T) {
	for _, c := range []struct {
		op    string
		attrs graph.Attrs
		dtype tensor.DType
		shape []int // of the operand; the wider dtype cannot have it
		want  []int
	}{
		{"acosh", nil, tensor.Float16, []int{1 << 46, 0}, []int{1 << 46, 0}},
		{"sum", graph.Attrs{"dim": []int{1}}, tensor.Uint8, []int{0, 1<<46 - 1}, []int{0}},
		{"sum", graph.Attrs{"dim": []int{0}}, tensor.Uint8, []int{0, 3}, []int{3}},
	} {
		g, m := graph.New("nothing", kernels.Lookup), tensor.New(c.dtype, c.shape...)
		v := g.Apply(c.op, c.attrs, g.InputMeta("x", m))
		if err := g.Err(); err != nil {
			t.Fatal(err)
		}
		out, err := v[0].Node.Op.Ref(v[0].Node.Call(), []*tensor.Tensor{tensor.Empty(m)})
		if err != nil || tensor.ListString(out[0].Shape) != tensor.ListString(c.want) {
			t.Errorf("%s: %v, %v", c.op, out, err)
		}
	}
}
