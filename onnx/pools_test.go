package onnx

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// pool1d has the parameters of a pool over one dimension.
type pool1d struct {
	kernel, stride, dilation, padBefore, padAfter int
	roundsUp                                      bool // ceil_mode
}

// windowStarts returns the position of each window in an operand of a size, by ONNX's shape inference.
func (p pool1d) windowStarts(size int) (starts []int) {
	distance := float64(size+p.padBefore+p.padAfter-(p.kernel-1)*p.dilation-1) / float64(p.stride)
	count := int(math.Floor(distance)) + 1
	if p.roundsUp {
		count = int(math.Ceil(distance)) + 1
		if (count-1)*p.stride >= size+p.padBefore {
			count--
		}
	}
	for i := range count {
		starts = append(starts, i*p.stride-p.padBefore)
	}
	return starts
}

// TestPoolWindows compares pools with a direct evaluation of their definitions, for all small windows.
func TestPoolWindows(t *testing.T) {
	count := 0
	for _, size := range []int{1, 4, 5} {
		x := make([]float32, size)
		for i := range x {
			x[i] = float32((i*5)%7 - 2)
		}
		for code := range 3 * 4 * 2 * 4 * 5 * 2 {
			if !testsize.All() && (code+size)%7 != 0 {
				continue
			}
			digit := func(base int) int {
				d := code % base
				code /= base
				return d
			}
			p := pool1d{1 + digit(3), 1 + digit(4), 1 + digit(2), digit(4), digit(5), digit(2) == 1}
			starts := p.windowStarts(size)
			if len(starts) == 0 || p.kernel == 1 && p.dilation == 2 {
				continue
			}
			for _, op := range []string{"MaxPool", "AveragePool", "AveragePool with padding", "LpPool"} {
				count++
				want := make([]float64, len(starts))
				for i, start := range starts {
					want[i] = pooled(op, p, x, start)
				}
				attrs := []*pb.AttributeProto{attrInts("kernel_shape", int64(p.kernel)), attrInts("strides", int64(p.stride)),
					attrInts("dilations", int64(p.dilation)), attrInts("pads", int64(p.padBefore), int64(p.padAfter))}
				if p.roundsUp {
					attrs = append(attrs, attrInt("ceil_mode", 1))
				}
				name := op
				if op == "AveragePool with padding" {
					name, attrs = "AveragePool", append(attrs, attrInt("count_include_pad", 1))
				}
				got := single(t, 22, name, "", []*tensor.Tensor{f32([]int{1, 1, size}, x...)}, 1, attrs...)[0]
				title := fmt.Sprintf("%s of %d elements, %+v", op, size, p)
				require.Equal(t, []int{1, 1, len(starts)}, got.Shape, title)
				for i, y := range floatsOf(t, got) {
					if isSame := math.IsNaN(want[i]) && y != y; !isSame && !(math.Abs(float64(y)-want[i]) <= 1e-5) &&
						float64(y) != want[i] {
						t.Fatalf("%s: element %d is %v, want %v", title, i, y, want[i])
					}
				}
			}
		}
	}
	t.Log(count, "pools")
}

// pooled returns the result of a window. Positions in the padding have no elements.
func pooled(op string, p pool1d, x []float32, start int) float64 {
	var elements []float64
	padding := 0
	for i := range p.kernel {
		switch position := start + i*p.dilation; {
		case position >= 0 && position < len(x):
			elements = append(elements, float64(x[position]))
		case position < len(x)+p.padAfter:
			padding++
		}
	}
	sum, squares := 0.0, 0.0
	for _, element := range elements {
		sum += element
		squares += element * element
	}
	switch op {
	case "MaxPool":
		return slices.Max(append(elements, math.Inf(-1)))
	case "LpPool":
		return math.Sqrt(squares)
	case "AveragePool":
		return sum / float64(len(elements))
	}
	return sum / float64(len(elements)+padding)
}

// TestPoolWindowsOfUnknownSize pools a size that is known only at the run: 4 windows of 2 elements with stride 2 would
// fit, and the last would start at the end of the operand.
func TestPoolWindowsOfUnknownSize(t *testing.T) {
	for _, op := range []string{"MaxPool", "AveragePool", "LpPool"} {
		attrs := []*pb.AttributeProto{attrInts("kernel_shape", 2), attrInts("strides", 2), attrInts("pads", 0, 2),
			attrInt("ceil_mode", 1)}
		g, err := toGraph(model(22, &pb.GraphProto{Node: []*pb.NodeProto{node1(op, names("x"), names("y"), attrs...)},
			Input: infos(info("x", pb.Float, 1, 1, "N")), Output: infos(info("y", pb.Float))}), Options{})
		require.NoError(t, err)
		for size, want := range map[int]int{3: 2, 5: 3, 6: 3, 8: 4} {
			require.NoError(t, g.Bind(map[string]int{"N": size}))
			require.Equal(t, []int{1, 1, want}, g.Value("y").Meta.Shape, op)
		}
	}
}
