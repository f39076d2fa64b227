package reduce

import (
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type localResponseAttrs struct {
	Size  int     `attr:"size" doc:"number of neighbouring channels whose squares are averaged"`
	Alpha float64 `attr:"alpha" default:"1e-4" doc:"factor of the mean of squares"`
	Beta  float64 `attr:"beta" default:"0.75" doc:"exponent"`
	K     float64 `attr:"k" default:"1" doc:"number added to the mean"`
}

// LocalResponseNorm divides each element by a power of the mean square of its neighbours along the channels. For
// example, with size 3, channel 5 is divided by
//
//	(k + alpha*(x[4]^2 + x[5]^2 + x[6]^2)/3) ^ beta
var LocalResponseNorm = kit.Define[*localResponseAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "local_response_norm",
		Doc: "Divides `input` [n, c, ...] by (k + alpha * m)^beta, where m is the sum of squares of `size` neighbouring " +
			"channels, divided by `size`. size/2 of these channels come before the channel, as in PyTorch. In ONNX, " +
			"(size-1)/2 channels come before it, which differs for even sizes.",
		Params: []graph.Param{kit.Input},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			inputType := call.Type(0)
			if inputType.Rank() < 3 { // the blanks are PyTorch's
				return nil, fmt.Errorf("Expected 3D or higher dimensionality                          input (got %d dimensions)",
					inputType.Rank())
			}
			if size := kit.Attrs[*localResponseAttrs](call).Size; size < 1 {
				return nil, fmt.Errorf("local_response_norm: size must be positive, but got %d", size)
			}
			if !inputType.DType.IsFloat() {
				return nil, kit.NotImplementedBy("avg_pool2d", inputType.DType)
			}
			// PyTorch divides by a row-major value, and this division determines the layout.
			iteration, err := rule.Binary(rule.UndefinedOutput(), rule.OperandOfType(inputType),
				rule.OperandOfType(inputType.RowMajor())).Rule()
			if err != nil {
				return nil, err
			}
			return call.NewResult(iteration.Type(0)), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs, input := kit.Attrs[*localResponseAttrs](c), in[0]
			out := tensor.Zeros(input.DType, input.Shape...)
			kit.EachIndex(input.Shape, func(index []int) {
				coords, sum := slices.Clone(index), 0.0
				first := index[1] - attrs.Size/2
				for coords[1] = max(first, 0); coords[1] < min(first+attrs.Size, input.Shape[1]); coords[1]++ {
					element := input.At(coords...).Float()
					sum += float64(element * element)
				}
				power := math.Pow(attrs.K+attrs.Alpha*sum/float64(attrs.Size), attrs.Beta)
				out.Set(tensor.FloatScalar(input.At(index...).Float()/power), index...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5, 3)},
			Attrs: graph.Attrs{"size": 3, "alpha": 0.5}}},
	},
	Facts: graph.Facts{
		Parallel:          kit.LoopsExceptDims(1), // 1: the channels
		FixedLayoutReason: "squares are summed over neighbouring planes",
		FlopsPerElement:   graph.ElementFlops{Simple: 10, Function: 0.3},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			if c.Out[0].DType.OpMath() == tensor.Float32 {
				return compileLocalResponse[float32](c)
			}
			return compileLocalResponse[float64](c)
		},
	},
})

// localBlock is the number of adjacent positions of a channel that are normalized together.
const localBlock = 256

// compileLocalResponse returns the kernel for a computation in T. The input is [samples, channels, positions], and a
// plane is one channel of one sample. A unit of work is a block of adjacent positions of one plane.
func compileLocalResponse[T float32 | float64](c *graph.Call) (*graph.Kernel, error) {
	attrs, dtype, inputMeta := kit.Attrs[*localResponseAttrs](c), tensor.DTypeOf[T](), c.Meta(0)
	channels, positions, total := inputMeta.Shape[1], tensor.Numel(inputMeta.Shape[2:]), inputMeta.Numel()
	blocks := kit.DivUp(positions, localBlock)
	power := localPower(attrs.Beta)
	builder := copies.NewKernelBuilder(c)
	buffers := []kit.Buffer{builder.Result(0, dtype), builder.ToRowMajor(builder.Operand(0), dtype)}
	// The power and the division take about as long as copying 8 elements.
	units, unitCost := inputMeta.Shape[0]*blocks*channels, min(positions, localBlock)*(min(attrs.Size, channels)+8)
	phase := copies.ChunkedPhase(units, unitCost, func(mem *graph.Mem, begin, end int) error {
		y, x := kit.ElementsOf[T](mem.Ptrs[0], total), kit.ElementsOf[T](mem.Ptrs[1], total)
		for unit := begin; unit < end; unit++ {
			// unit = (sample*blocks + block)*channels + channel
			channel, firstPosition := unit%channels, unit/channels%blocks*localBlock
			sample := unit / channels / blocks
			firstPlane := sample * channels
			count := min(localBlock, positions-firstPosition)
			sums := kit.SliceOf[float64](mem.WorkerScratch, 0, count)
			clear(sums)
			firstNeighbour := channel - attrs.Size/2
			for neighbour := max(0, firstNeighbour); neighbour < min(channels, firstNeighbour+attrs.Size); neighbour++ {
				addSquares(sums, x[(firstPlane+neighbour)*positions+firstPosition:][:count])
			}
			offset := (firstPlane+channel)*positions + firstPosition
			for i, sum := range sums {
				y[offset+i] = T(float64(x[offset+i]) / power(attrs.K+attrs.Alpha*sum/float64(attrs.Size)))
			}
		}
		return nil
	})
	const sumsBytes = localBlock * 8 // a float64 for each position of a block
	builder.AddPhases(copies.NoScratch, sumsBytes, buffers, phase)
	return builder.Kernel()
}

// addSquares adds the square of each element to the sum at the same index. The conversion of the square prevents a
// fused multiply-add.
func addSquares[T float32 | float64](sums []float64, elements []T) {
	for i, element := range elements {
		sums[i] += float64(float64(element) * float64(element))
	}
}

// localPower returns the function x^beta. It uses square roots for the usual exponents.
func localPower(beta float64) func(float64) float64 {
	switch beta {
	case 0.75: // sqrt(x) * sqrt(sqrt(x))
		return func(x float64) float64 {
			root := math.Sqrt(x)
			return root * math.Sqrt(root)
		}
	case 0.5:
		return math.Sqrt
	}
	return func(x float64) float64 { return math.Pow(x, beta) }
}
