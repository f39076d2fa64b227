package reduce

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/folds"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type rmsNormAttrs struct {
	NormalizedShape []sym.Int `attr:"normalized_shape" doc:"sizes of the last dimensions of input, over which it is normalized"`
	Eps             *float64  `attr:"eps" default:"none" doc:"number added to the mean of squares; none: the difference between 1 and the next greater number of the dtype"`
}

type localResponseAttrs struct {
	Size  int     `attr:"size" doc:"number of neighbouring channels whose squares are averaged"`
	Alpha float64 `attr:"alpha" default:"1e-4" doc:"factor of the mean of squares"`
	Beta  float64 `attr:"beta" default:"0.75" doc:"exponent"`
	K     float64 `attr:"k" default:"1" doc:"number added to the mean"`
}

// RmsNorm divides by the root of the mean of squares.
var RmsNorm = kit.Define[*rmsNormAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "rms_norm",
		Doc: "Divides `input` by the root of the mean of squares over its last dimensions, and multiplies by `weight`. " +
			"The result is row-major.",
		Params: []graph.Param{kit.Input, kit.OptWeight},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			shape, inputType := kit.Attrs[*rmsNormAttrs](call).NormalizedShape, call.Type(0)
			if len(shape) == 0 {
				return nil, errors.New("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one " +
					"element, but got normalized_shape = []")
			}
			if firstDim := inputType.Rank() - len(shape); firstDim < 0 ||
				!tensor.SameSizes(inputType.Shape[firstDim:], shape) {
				sizes := tensor.Sizes(shape) // with brackets
				return nil, fmt.Errorf("Given normalized_shape=%s, expected input with shape [*, %s], but got input of size%s",
					sizes, sizes[1:len(sizes)-1], tensor.Sizes(inputType.Shape))
			}
			if weightType := call.Type(1); call.HasOperand(1) && !tensor.SameSizes(weightType.Shape, shape) {
				return nil, fmt.Errorf("Expected weight to be of same shape as normalized_shape, but got weight of shape %s and "+
					"normalized_shape = %s", tensor.Sizes(weightType.Shape), tensor.Sizes(shape))
			}
			if !inputType.DType.IsFloat() {
				return nil, kit.NotImplemented("rms_norm", inputType.DType)
			}
			if err := checkNormDTypes(call, 1); err != nil {
				return nil, err
			}
			return call.NewResult(inputType.RowMajor()), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs, input := kit.Attrs[*rmsNormAttrs](c), in[0]
			out := tensor.Zeros(input.DType, input.Shape...)
			firstDim := input.Rank() - len(attrs.NormalizedShape) // the first normalized dimension
			rowShape := input.Shape[firstDim:]
			kit.EachIndex(input.Shape[:firstDim], func(row []int) {
				sum := 0.0
				kit.EachIndex(rowShape, func(indexInRow []int) {
					element := input.At(append(slices.Clone(row), indexInRow...)...).Float()
					sum += float64(element * element)
				})
				scale := 1 / math.Sqrt(sum/float64(tensor.Numel(rowShape))+attrs.eps(input.DType))
				kit.EachIndex(rowShape, func(indexInRow []int) {
					coords := append(slices.Clone(row), indexInRow...)
					element := input.At(coords...).Float() * scale
					if len(in) > 1 && in[1] != nil {
						element *= in[1].At(indexInRow...).Float()
					}
					out.Set(tensor.FloatScalar(element), coords...)
				})
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4), tensor.New(tensor.Float32, 3, 4)},
			Attrs: graph.Attrs{"normalized_shape": []int{3, 4}}},
			{In: []tensor.Meta{kit.TransposedMatrix}, Attrs: graph.Attrs{"normalized_shape": 3, "eps": 0.1}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true, FlopsPerElement: graph.ElementFlops{Simple: 2}},
	Lowerings: graph.Lowerings{
		Rows: rmsNormRows,
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*rmsNormAttrs](c)
			if kernel, err := compileRows(c, rmsNormRows); kernel != nil || err != nil {
				return kernel, err
			}
			return compileRowNorm(c, rmsNorm, len(attrs.NormalizedShape), attrs.eps(c.Meta(0).DType))
		},
	},
})

// eps returns the number that is added to the mean of squares for an input of the given dtype.
func (attrs *rmsNormAttrs) eps(dtype tensor.DType) float64 {
	if attrs.Eps != nil {
		return *attrs.Eps
	}
	// The next greater number than 1 is 1 + 2^-mantissaBits.
	mantissaBits := map[tensor.DType]int{tensor.Float16: 10, tensor.BFloat16: 7, tensor.Float32: 23, tensor.Float64: 52}
	return math.Ldexp(1, -mantissaBits[dtype])
}

// LocalResponseNorm divides each element by a power of the mean square of its neighbours along the channels.
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
				out.Set(tensor.FloatScalar(input.At(index...).Float()/power),
					index...)
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 5, 3)},
			Attrs: graph.Attrs{"size": 3, "alpha": 0.5}}},
	},
	Facts: graph.Facts{
		Parallel:          kit.LoopsExceptDims(1),
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

// compileLocalResponse returns the kernel for a computation in T. A unit of work is a block of positions of one channel
// of one sample.
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
			firstPlane := unit / channels / blocks * channels // of the sample; a plane is a channel of a sample
			count := min(localBlock, positions-firstPosition)
			sums := kit.SliceOf[float64](mem.WorkerScratch, 0, count)
			clear(sums)
			firstNeighbour := channel - attrs.Size/2
			for neighbour := max(0, firstNeighbour); neighbour < min(channels, firstNeighbour+attrs.Size); neighbour++ {
				for i, element := range x[(firstPlane+neighbour)*positions+firstPosition:][:count] {
					sums[i] += float64(float64(element) * float64(element))
				}
			}
			offset := (firstPlane+channel)*positions + firstPosition
			for i, sum := range sums {
				y[offset+i] = T(float64(x[offset+i]) / power(attrs.K+attrs.Alpha*sum/float64(attrs.Size)))
			}
		}
		return nil
	})
	const sumsBytes = localBlock * 8
	builder.AddPhases(copies.NoScratch, sumsBytes, buffers, phase)
	return builder.Kernel()
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

// rmsNormRows returns the expression over rows. The mean of squares is computed in float64.
func rmsNormRows(call *graph.Call) (*graph.Rows, error) {
	attrs := kit.Attrs[*rmsNormAttrs](call)
	builder, values, in, mask := normOperands(call, len(attrs.NormalizedShape), 1)
	x, weight := values[0], values[1]
	x64 := folds.InFloat64(builder, x)
	count := builder.Const(tensor.Float64, float64(folds.Count(call.Meta(0).Shape, mask)))
	meanSquare := builder.Emit(expr.Div, folds.Total(builder, builder.Emit(expr.Mul, x64, x64)), count)
	result := builder.Emit(expr.Mul, x, inverseRoot(builder, meanSquare, attrs.eps(call.Meta(0).DType), builder.DType(x)))
	if weight != expr.None {
		result = builder.Emit(expr.Mul, result, weight)
	}
	return singleResultRows(builder, mask, in, result, call.Meta(0).DType)
}
