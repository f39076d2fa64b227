package onnx

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// resizedAxis has the parameters of Resize over one dimension.
type resizedAxis struct {
	coordinates, nearest string
	in, out              int
	scale                *big.Rat // exact: a float32, or out/in
}

// position returns the position of an index of the result, by the text of the operator. In align_corners, the length of
// the result is not rounded, as in ONNX's test cases. A factor of 1 keeps a dimension: tf_half_pixel_for_nn would
// otherwise mix the channels of an image.
func (r resizedAxis) position(i int) *big.Rat {
	rat := func(number int) *big.Rat { return new(big.Rat).SetInt64(int64(number)) }
	half := big.NewRat(1, 2)
	index, last := rat(i), rat(r.in-1)
	halfPixel := new(big.Rat).Add(index, half)
	halfPixel.Sub(halfPixel.Quo(halfPixel, r.scale), half)
	length := new(big.Rat).Mul(r.scale, rat(r.in))
	if r.scale.Cmp(rat(1)) == 0 && r.coordinates != "tf_crop_and_resize" {
		return index
	}
	switch r.coordinates {
	case "align_corners":
		if length.Cmp(rat(1)) == 0 {
			return rat(0)
		}
		p := new(big.Rat).Mul(index, last)
		return p.Quo(p, length.Sub(length, rat(1)))
	case "asymmetric":
		return new(big.Rat).Quo(index, r.scale)
	case "tf_half_pixel_for_nn":
		return halfPixel.Add(halfPixel, half)
	case "pytorch_half_pixel":
		if r.out <= 1 {
			return rat(0)
		}
	case "half_pixel_symmetric":
		adjustment := new(big.Rat).Quo(rat(r.out), length)
		offset := new(big.Rat).Mul(big.NewRat(int64(r.in), 2), new(big.Rat).Sub(rat(1), adjustment))
		return offset.Add(offset, halfPixel)
	case "tf_crop_and_resize": // of the region from 1/4 to 5/4
		start, end := big.NewRat(1, 4), big.NewRat(5, 4)
		if r.out <= 1 {
			middle := new(big.Rat).Add(start, end)
			return middle.Mul(middle, half).Mul(middle, last)
		}
		p := new(big.Rat).Mul(index, new(big.Rat).Sub(end, start))
		p.Mul(p, last).Quo(p, rat(r.out-1))
		return p.Add(p, start.Mul(start, last))
	}
	return halfPixel
}

// rounded returns a position as the index of an element.
func (r resizedAxis) rounded(p *big.Rat) int {
	floor := func(x *big.Rat) int { return int(new(big.Int).Div(x.Num(), x.Denom()).Int64()) } // Div rounds down
	half := big.NewRat(1, 2)
	ceil := func(x *big.Rat) int { return -floor(new(big.Rat).Neg(x)) }
	index := 0
	switch mode := r.nearest; {
	case mode == "round_prefer_floor":
		index = ceil(new(big.Rat).Sub(p, half))
	case mode == "round_prefer_ceil":
		index = floor(new(big.Rat).Add(p, half))
	case mode == "ceil", mode == "simple" && r.scale.Cmp(big.NewRat(1, 1)) < 0:
		index = ceil(p)
	default:
		index = floor(p)
	}
	return min(max(index, 0), r.in-1)
}

// outside is the extrapolation value of tf_crop_and_resize.
const outside = -7

// element returns the element of the result at an index. Element i of the operand is valueOf(i).
func (r resizedAxis) element(i int, mode string) float64 {
	p := r.position(i)
	if r.coordinates == "tf_crop_and_resize" && (p.Sign() < 0 || p.Cmp(new(big.Rat).SetInt64(int64(r.in-1))) > 0) {
		return outside
	}
	if mode == "nearest" {
		return valueOf(r.rounded(p))
	}
	position, _ := p.Float64()
	base := math.Floor(position)
	sum := 0.0
	for k := -1; k <= 2; k++ {
		d := math.Abs(position - base - float64(k))
		weight := max(1-d, 0)
		if mode == "cubic" {
			const a = -0.75
			switch {
			case d <= 1:
				weight = (a+2)*d*d*d - (a+3)*d*d + 1
			default:
				weight = a*d*d*d - 5*a*d*d + 8*a*d - 4*a
			}
		}
		sum += weight * valueOf(min(max(int(base)+k, 0), r.in-1))
	}
	return sum
}

func valueOf(i int) float64 { return float64((i*7)%11 + i) }

// TestResizePositions goes through operator sets, coordinate modes, modes and sizes, with positions in exact
// arithmetic.
func TestResizePositions(t *testing.T) {
	scales := []float32{0.25, 1.0 / 3, 0.4, 0.439453125, 0.5, 0.6, 0.7, 0.75, 1, 1.25, 4.0 / 3, 1.5, 1.7, 2, 2.5, 3, 5, 7}
	sets := []int64{10, 11, 13, 18, 19, 7, 9}
	coordinateModes := []string{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
		"tf_crop_and_resize", "tf_half_pixel_for_nn"}
	count, candidates := 0, 0
	for _, opset := range sets {
		isOld := opset < 11
		for _, coordinates := range coordinateModes {
			isKnown := opset >= 11 && (coordinates != "half_pixel_symmetric" || opset >= 19) &&
				(coordinates != "tf_half_pixel_for_nn" || opset < 13)
			if !isKnown && (!isOld || coordinates != "asymmetric") {
				continue
			}
			for _, mode := range []string{"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "linear", "cubic"} {
				if isOld && (mode != "floor" && mode != "linear") {
					continue
				}
				for _, in := range []int{1, 2, 3, 4, 5, 6, 10, 15, 49} {
					for _, scale := range scales {
						for _, bySizes := range []bool{false, true} {
							candidates++
							isSkipped := isOld && bySizes || opset < 10 && scale < 1 || coordinates == "tf_crop_and_resize" && isOld
							if isSkipped || !testsize.All() && candidates%37 != 0 {
								continue
							}
							checkResize(t, opset, coordinates, mode, in, scale, bySizes)
							count++
						}
					}
				}
			}
		}
	}
	t.Log(count, "calls")
	checkResize(t, 13, "half_pixel", "round_prefer_floor", 512, 0.439453125, false)
	checkResize(t, 13, "half_pixel", "round_prefer_floor", 512, 0.439453125, true)
	checkResize(t, 10, "asymmetric", "floor", 4, 0.6, false)
	checkResize(t, 13, "pytorch_half_pixel", "cubic", 5, 0.2, false)
	checkResize(t, 13, "asymmetric", "floor", 2, 49, true)
	checkResize(t, 13, "asymmetric", "floor", 9, 1.0/9, false) // 0.11111111 as a decimal would give no element
}

// checkResize resizes a row of [1, 1, 1, in], and of [in] where the operator set has axes or the row is the only
// dimension.
func checkResize(t *testing.T, opset int64, coordinates, mode string, in int, scale float32, bySizes bool) {
	t.Helper()
	r := resizedAxis{coordinates: coordinates, nearest: mode, in: in, out: int(float32(in) * scale),
		scale: new(big.Rat).SetFloat64(float64(scale))}
	if r.out == 0 {
		return
	}
	if bySizes {
		r.scale = big.NewRat(int64(r.out), int64(in))
	}
	interpolation := "nearest"
	if mode == "linear" || mode == "cubic" {
		interpolation, r.nearest = mode, ""
	}
	x := make([]float32, in)
	for i := range x {
		x[i] = float32(valueOf(i))
	}
	for _, rank := range []int{4, 1} {
		title := fmt.Sprintf("set %d, %s, %s, %d to %d, scale %v, by sizes: %v, rank %d", opset, coordinates, mode, in, r.out,
			scale, bySizes, rank)
		shape, sizes, factors := make([]int, rank), make([]int64, rank), make([]float32, rank)
		roi := make([]float32, 2*rank)
		for i := range shape {
			shape[i], sizes[i], factors[i], roi[rank+i] = 1, 1, 1, 1
		}
		shape[rank-1], sizes[rank-1], factors[rank-1], roi[rank-1], roi[2*rank-1] = in, int64(r.out), scale, 0.25, 1.25
		attrs := []*pb.AttributeProto{attrText("mode", interpolation)}
		op, operands, known := "Resize", []*tensor.Tensor{f32(shape, x...), f32([]int{rank}, factors...)}, "b"
		switch {
		case opset < 9: // Upsample with attributes
			op, operands, known = "Upsample", operands[:1], ""
			attrs = append(attrs, &pb.AttributeProto{Name: "scales", Type: pb.AttributeFloats, Floats: factors})
		case opset < 10:
			op = "Upsample"
		case opset >= 11:
			attrs = append(attrs, attrText("coordinate_transformation_mode", coordinates),
				attrFloat("extrapolation_value", outside))
			if r.nearest != "" {
				attrs = append(attrs, attrText("nearest_mode", r.nearest))
			}
			operands, known = []*tensor.Tensor{operands[0], f32([]int{2 * rank}, roi...), operands[1]}, "bc"
			if bySizes {
				operands[2] = nil
				operands, known = append(operands, i64([]int{rank}, sizes...)), "bd"
			}
		}
		if opset < 11 {
			r.nearest = "simple"
		}
		for _, constants := range []string{known, ""} { // parameters known at the import, or at the run
			got := single(t, opset, op, constants, operands, 1, attrs...)[0]
			require.Equal(t, r.out, got.Numel(), title)
			for i, y := range floatsOf(t, got) {
				if want := r.element(i, interpolation); math.Abs(float64(y)-want) > 1e-4 {
					t.Errorf("%s: element %d is %v, want %v (position %v)", title, i, y, want, r.position(i))
				}
			}
		}
	}
}
