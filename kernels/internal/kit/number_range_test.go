package kit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/graphrun/graphrun/tensor"
)

// TestGreatestNumbersFit checks numbers around the greatest finite number of each float dtype. A number that is at
// least half a unit in the last place above it overflows.
func TestGreatestNumbersFit(t *testing.T) {
	for dtype, number := range map[tensor.DType]struct{ greatest, text, overflow float64 }{
		tensor.Float16:   {65504, 65519, 65520},
		tensor.BFloat16:  {0x1.fep127, 3.39e38, 0x1.ffp127},
		tensor.Float32:   {math.MaxFloat32, 3.4028235e38, 0x1.ffffffp127},
		tensor.Float64:   {math.MaxFloat64, 1.7976931348623157e308, math.NaN()},
		tensor.Complex64: {math.MaxFloat32, 3.4028235e38, 0x1.ffffffp127},
	} {
		for _, sign := range []float64{1, -1} {
			assert.NoError(t, CheckNumberFits(tensor.FloatScalar(sign*number.greatest), dtype), dtype)
			assert.NoError(t, CheckNumberFits(tensor.FloatScalar(sign*number.text), dtype), dtype)
			assert.NoError(t, CheckNumberFits(tensor.FloatScalar(sign*math.Inf(1)), dtype), dtype)
			if !math.IsNaN(number.overflow) {
				assert.Error(t, CheckNumberFits(tensor.FloatScalar(sign*number.overflow), dtype), dtype)
			}
		}
	}
	assert.Error(t, CheckNumberFits(tensor.FloatScalar(256), tensor.Uint8))
	assert.Error(t, CheckNumberFits(tensor.FloatScalar(1e39), tensor.Float32))
}
