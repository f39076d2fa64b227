package conv_test

import (
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// TestPaddingWords checks the errors for padding words. TestVolumesAgainstTorch compares their results with PyTorch.
func TestPaddingWords(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	x, w := z(1, 2, 5, 6), z(3, 2, 2, 3)
	for want, c := range map[string]struct {
		a    graph.Attrs
		x, w *tensor.Tensor
	}{
		"padding='same' is not supported for strided " +
			"convolutions": {graph.Attrs{"padding": "same", "stride": []int{1, 2}}, x, w},
		`attribute "padding": want an integer, a list of integers, same or valid, got "SAME"; did you mean same?`: {
			graph.Attrs{"padding": "SAME", "stride": 2}, x, w},
		"stride cannot broadcast to 2 dimensions":      {graph.Attrs{"padding": "same", "stride": []int{1, 1, 1}}, x, w},
		"dilation cannot broadcast to 2 dimensions":    {graph.Attrs{"padding": "same", "dilation": []int{1, 1, 1}}, x, w},
		"weight should have at least three dimensions": {graph.Attrs{"padding": "same"}, x, z(2, 3)},
		"negative padding is not supported":            {graph.Attrs{"padding": "same"}, x, z(3, 2, 0, 2)},
		"Expected 3-dimensional input for 3-dimensional weight[2, 2, 3], but got 4-dimensional input of size [1, 2, " +
			"5, 6] instead": {graph.Attrs{"padding": "same"}, x, z(2, 2, 3)},
		"Given groups=1, weight of size [3, 3, 2, 3], expected input[1, 2, 6, 6] to have 3 channels, but got 2 " +
			"channels instead": {graph.Attrs{"padding": "same"}, x, z(3, 3, 2, 3)},
		"Calculated padded input size per channel: (5 x 6). Kernel size: (6 x 3). Kernel size can't be greater than " +
			"actual input size": {graph.Attrs{"padding": "valid"}, x, z(3, 2, 6, 3)},
	} {
		if _, err := kerneltest.NewProductCall("conv2d", c.a, []*tensor.Tensor{c.x, c.w}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	// The overloads for words do not check the bias' dtype.
	bias := tensor.Zeros(tensor.Float64, 3)
	bias.Set(tensor.FloatScalar(2), 1)
	p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": "same"}, []*tensor.Tensor{x, w, bias})
	if err != nil {
		t.Fatal(err)
	}
	p.Check(t, 1)
}

// TestPaddingSameLayout checks the layout of results for even windows, where PyTorch copies the input first.
func TestPaddingSameLayout(t *testing.T) {
	for _, f := range []tensor.MemoryFormat{tensor.Contiguous, tensor.ChannelsLast} {
		m, err := tensor.NewFormat(tensor.Float32, []int{2, 4, 5, 6}, f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": "same", "groups": 4},
			[]*tensor.Tensor{tensor.Empty(m), tensor.Zeros(tensor.Float32, 4, 1, 2, 2)})
		if err != nil {
			t.Fatal(err)
		}
		if out := p.Call.Out[0]; !out.Is(f) || tensor.ListString(out.Shape) != "[2, 4, 5, 6]" {
			t.Errorf("%v: got %v", f, out)
		}
	}
}
