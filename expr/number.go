package expr

import (
	"fmt"
	"math"
	"strconv"

	"github.com/graphrun/graphrun/tensor"
)

// constantText returns the text of a constant for listings.
func constantText(dtype tensor.DType, imm uint64) string {
	switch {
	case dtype == tensor.Float32:
		return strconv.FormatFloat(float64(math.Float32frombits(uint32(imm))), 'g', -1, 32)
	case dtype == tensor.Float64:
		return strconv.FormatFloat(math.Float64frombits(imm), 'g', -1, 64)
	case dtype.IsReducedFloat():
		return fmt.Sprintf("%#x", imm)
	case dtype.IsSigned():
		unusedBits := 64 - 8*dtype.Size()
		return strconv.FormatInt(int64(imm<<unusedBits)>>unusedBits, 10) // sign-extended
	}
	return strconv.FormatUint(imm, 10)
}
