package view

import (
	"errors"
	"fmt"
	"math"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type windowAttrs struct {
	WindowLength sym.Int      `attr:"window_length" doc:"number of elements"`
	Periodic     bool         `attr:"periodic" default:"true" doc:"true: the first window_length elements of a symmetric window with one more element; false: a symmetric window"`
	DType        tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

type hammingAttrs struct {
	WindowLength sym.Int      `attr:"window_length" doc:"number of elements"`
	Periodic     bool         `attr:"periodic" default:"true" doc:"true: the first window_length elements of a symmetric window with one more element; false: a symmetric window"`
	Alpha        float64      `attr:"alpha" default:"0.54" doc:"constant part"`
	Beta         float64      `attr:"beta" default:"0.46" doc:"factor of the cosine"`
	DType        tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// HannWindow, HammingWindow and BlackmanWindow are window functions of signal processing. They are sums of cosines.
var (
	HannWindow = windowOp(graph.SchemaOf[*windowAttrs](), "hann_window", "Creates a Hann window.",
		func(c *graph.Call) (*windowAttrs, [3]float64) {
			return kit.Attrs[*windowAttrs](c), [3]float64{0.5, 0.5, 0}
		})
	HammingWindow = windowOp(graph.SchemaOf[*hammingAttrs](), "hamming_window", "Creates a Hamming window.",
		func(c *graph.Call) (*windowAttrs, [3]float64) {
			attrs := kit.Attrs[*hammingAttrs](c)
			return &windowAttrs{attrs.WindowLength, attrs.Periodic, attrs.DType}, [3]float64{attrs.Alpha, attrs.Beta, 0}
		})
	BlackmanWindow = windowOp(graph.SchemaOf[*windowAttrs](), "blackman_window", "Creates a Blackman window.",
		func(c *graph.Call) (*windowAttrs, [3]float64) {
			return kit.Attrs[*windowAttrs](c), [3]float64{0.42, 0.5, 0.08}
		})
)

// windowOp defines a window function. Its element i is w[0] - w[1]*cos(x) + w[2]*cos(2*x) with x = 2*pi*i/period.
// windowOf returns the attributes of a call and the coefficients w.
func windowOp(attrs *graph.Schema, name, doc string,
	windowOf func(c *graph.Call) (window *windowAttrs, w [3]float64)) *graph.Op {
	op := graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc,
		Examples: []graph.Example{{Attrs: graph.Attrs{"window_length": 5}},
			{Attrs: graph.Attrs{"window_length": 4, "periodic": false}}},
	}}
	return kit.ElementOpWith(attrs, op, func(c *graph.Call) (tensor.Type, error) {
		window, _ := windowOf(c)
		switch {
		case !window.DType.IsFloat():
			return tensor.Type{}, fmt.Errorf("%s expects floating point dtypes, got: %s", op.Name, window.DType)
		case kit.IsNegative(window.WindowLength):
			return tensor.Type{}, fmt.Errorf("%s requires non-negative window_length, got window_length=%v", op.Name,
				window.WindowLength)
		}
		return kit.FreshType(window.DType, []sym.Int{window.WindowLength})
	}, func(c *graph.Call) func(int) tensor.Scalar {
		window, w := windowOf(c)
		length := kit.KnownSize(window.WindowLength)
		period := length
		if !window.Periodic { // the last element is at x = 2*pi
			period--
		}
		return func(i int) tensor.Scalar {
			if length == 1 { // as in PyTorch, for any coefficients
				return tensor.FloatScalar(1)
			}
			x := 2 * math.Pi * float64(i) / float64(period)
			// The conversions of the products prevent fused multiply-adds.
			return tensor.FloatScalar(w[0] - float64(w[1]*math.Cos(x)) + float64(w[2]*math.Cos(2*x)))
		}
	})
}

type melAttrs struct {
	NumMelBins     sym.Int      `attr:"num_mel_bins" doc:"number of bands"`
	DftLength      sym.Int      `attr:"dft_length" doc:"length of the transform whose frequencies are weighted"`
	SampleRate     int          `attr:"sample_rate" doc:"samples per second"`
	LowerEdgeHertz float64      `attr:"lower_edge_hertz" doc:"lowest frequency of the first band"`
	UpperEdgeHertz float64      `attr:"upper_edge_hertz" doc:"highest frequency of the last band"`
	DType          tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
}

// MelWeightMatrix is ONNX's operator. PyTorch has no equivalent.
var MelWeightMatrix = kit.ElementOp[*melAttrs](graph.Op{Semantics: graph.Semantics{
	Name: "mel_weight_matrix",
	Doc: "Creates a matrix with a row for each of dft_length/2+1 frequencies and a column for each band. " +
		"The bands are overlapping triangles on the mel scale.",
	Examples: []graph.Example{{Attrs: graph.Attrs{"num_mel_bins": 8, "dft_length": 16, "sample_rate": 8192,
		"lower_edge_hertz": 0.0, "upper_edge_hertz": 4096.0}}},
}}, func(c *graph.Call) (tensor.Type, error) {
	attrs := kit.Attrs[*melAttrs](c)
	arePositive := kit.SizeAtLeast(attrs.NumMelBins, 1) && kit.SizeAtLeast(attrs.DftLength, 1) && attrs.SampleRate > 0
	// The mel scale is defined above -700 Hz (see mel). The negated comparisons also reject NaN.
	if !arePositive || !(attrs.LowerEdgeHertz > -700) || !(attrs.UpperEdgeHertz > -700) {
		return tensor.Type{}, errors.New("mel_weight_matrix: num_mel_bins, dft_length and sample_rate must be positive, " +
			"and frequencies greater than -700")
	}
	return kit.FreshType(attrs.DType, []sym.Int{attrs.DftLength.Div(sym.Of(2)).Add(sym.Of(1)), attrs.NumMelBins})
}, func(c *graph.Call) func(int) tensor.Scalar {
	attrs := kit.Attrs[*melAttrs](c)
	bins, length := kit.KnownSize(attrs.NumMelBins), kit.KnownSize(attrs.DftLength)
	lowest, step := mel(attrs.LowerEdgeHertz), (mel(attrs.UpperEdgeHertz)-mel(attrs.LowerEdgeHertz))/float64(bins+2)
	// Band k is a triangle with its start at edge k, its peak at edge k+1 and its end at edge k+2. The edges are
	// equidistant on the mel scale. edge returns the row of edge k by ONNX's formula.
	edge := func(k int) int {
		// The conversion of the product prevents a fused multiply-add.
		hertz := 700 * (math.Pow(10, (float64(float64(k)*step)+lowest)/2595) - 1)
		return int(math.Floor(float64(length+1) * hertz / float64(attrs.SampleRate)))
	}
	return func(i int) tensor.Scalar {
		row, band := i/bins, i%bins
		return tensor.FloatScalar(triangle(row, edge(band), edge(band+1), edge(band+2)))
	}
})

// mel returns a frequency on the mel scale.
func mel(hertz float64) float64 { return float64(2595 * math.Log10(1+hertz/700)) }

// triangle returns the weight of a row in a band that rises from 0 in row lower to 1 in row center, and falls to 0 in
// row higher.
func triangle(row, lower, center, higher int) float64 {
	switch {
	case row >= center && row < higher:
		return float64(higher-row) / float64(higher-center)
	case lower == center && row == center: // a triangle without a rising side
		return 1
	case row >= lower && row <= center && lower != center:
		return float64(row-lower) / float64(center-lower)
	}
	return 0
}
