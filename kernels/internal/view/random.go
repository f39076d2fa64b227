package view

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Rand, Randn, RandLike and RandnLike create random numbers. In all ops of this file, the random words of
// element i of a result, in row-major order, are [philox](i, seed). Each node has its own seed, while PyTorch's ops
// share a generator.
var (
	Rand     = randOp("rand", "Creates random numbers, uniformly distributed in [0, 1).", uniformDraw)
	Randn    = randOp("randn", "Creates random numbers, normally distributed with mean 0 and variance 1.", normalDraw)
	RandLike = randLikeOp("rand_like", "Creates random numbers in self's shape, uniformly distributed in [0, 1).",
		uniformDraw)
	RandnLike = randLikeOp("randn_like", "Creates random numbers in self's shape, normally distributed with mean 0 and "+
		"variance 1.", normalDraw)
)

type randAttrs struct {
	Size  []sym.Int    `attr:"size" doc:"sizes of the result"`
	DType tensor.DType `attr:"dtype" default:"float32" doc:"dtype of the result"`
	Seed  int          `attr:"seed" default:"0" range:"int64" doc:"seed; the same seed gives the same numbers"`
}

type randLikeAttrs struct {
	DType        tensor.DType        `attr:"dtype" default:"none" doc:"dtype of the result; default: self's"`
	MemoryFormat tensor.MemoryFormat `attr:"memory_format" default:"preserve" doc:"layout of the result"`
	Seed         int                 `attr:"seed" default:"0" range:"int64" doc:"seed; the same seed gives the same numbers"`
}

// draw converts the random words of an element, which are 128 random bits, to a value of a dtype. kernel is PyTorch's
// name of the kernel, for errors about dtypes.
type draw struct {
	kernel string
	scalar func(words [4]uint32, dtype tensor.DType) tensor.Scalar
}

var (
	uniformDraw = draw{"check_uniform_bounds", uniformScalar}
	normalDraw  = draw{"normal_kernel_cpu", normalScalar}
)

// randOp defines an op that creates random floats or complex numbers. The arguments of [kit.ElementOp] are the op, the
// function that infers the type of the result, and the function that computes element i.
func randOp(name, doc string, d draw) *graph.Op {
	return kit.ElementOp[*randAttrs](graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc + complexDrawDoc,
		Examples: []graph.Example{{Attrs: graph.Attrs{"size": []int{2, 3}, "seed": 5}},
			{Attrs: graph.Attrs{"size": []int{2, 3}, "dtype": "complex64"}}},
	}},
		func(c *graph.Call) (tensor.Type, error) {
			attrs := kit.Attrs[*randAttrs](c)
			if err := d.check(attrs.DType); err != nil {
				return tensor.Type{}, err
			}
			return kit.FreshType(attrs.DType, attrs.Size)
		}, func(c *graph.Call) func(int) tensor.Scalar {
			attrs := kit.Attrs[*randAttrs](c)
			return d.elements(attrs.DType, attrs.Seed)
		})
}

// complexDrawDoc is a sentence of the docs of random numbers.
const complexDrawDoc = " The parts of a complex number are independent."

// randLikeOp is randOp for an op whose result has the shape and layout of self.
func randLikeOp(name, doc string, d draw) *graph.Op {
	dtype := func(c *graph.Call) tensor.DType {
		if dtype := kit.Attrs[*randLikeAttrs](c).DType; dtype != tensor.Invalid {
			return dtype
		}
		return c.Type(0).DType
	}
	return kit.ElementOp[*randLikeAttrs](graph.Op{Semantics: graph.Semantics{
		Name: name, Doc: doc + complexDrawDoc,
		Params: []graph.Param{kit.Self}, Examples: kit.OneExample(kit.NHWC(2, 3, 4, 5), nil),
	}},
		func(c *graph.Call) (tensor.Type, error) {
			if err := d.check(dtype(c)); err != nil {
				return tensor.Type{}, err
			}
			return emptyLikeType(c.Type(0), dtype(c), kit.Attrs[*randLikeAttrs](c).MemoryFormat)
		},
		func(c *graph.Call) func(int) tensor.Scalar {
			return d.elements(dtype(c), kit.Attrs[*randLikeAttrs](c).Seed)
		})
}

// check returns PyTorch's error for a dtype that the op does not support.
func (d draw) check(dtype tensor.DType) error {
	if !dtype.IsFloat() && !dtype.IsComplex() {
		return kit.NotImplementedBy(d.kernel, dtype)
	}
	return nil
}

// elements returns the function from row-major indices to elements.
func (d draw) elements(dtype tensor.DType, seed int) func(int) tensor.Scalar {
	return func(i int) tensor.Scalar { return d.scalar(philox(uint64(i), uint64(seed)), dtype) }
}

// uniformScalar converts random words to a number of the given dtype whose parts are uniformly distributed in [0, 1).
func uniformScalar(words [4]uint32, dtype tensor.DType) tensor.Scalar {
	if !dtype.IsComplex() {
		return tensor.FloatScalar(uniform(words, dtype))
	}
	part := dtype.ToReal()
	return tensor.ComplexScalar(complex(uniform(words, part), uniform([4]uint32{words[2], words[3]}, part)))
}

// normalScalar converts random words to a normally distributed number of the given dtype, by the Box-Muller transform.
// The two parts of a complex number have variance 1/2 each.
func normalScalar(words [4]uint32, dtype tensor.DType) tensor.Scalar {
	// radial is in (0, 1], so that its logarithm is finite. angle is in [0, 2 pi). Both have 53 random bits.
	radial := (float64(joinWords(words[0], words[1])>>11) + 1) * 0x1p-53
	angle := 2 * math.Pi * (float64(joinWords(words[2], words[3])>>11) * 0x1p-53)
	if dtype.IsComplex() {
		radius := math.Sqrt(-math.Log(radial))
		return tensor.ComplexScalar(complex(radius*math.Cos(angle), radius*math.Sin(angle)))
	}
	return tensor.FloatScalar(math.Sqrt(-2*math.Log(radial)) * math.Cos(angle))
}

type randintAttrs struct {
	Low   int          `attr:"low" default:"0" range:"int64" doc:"inclusive lower bound"`
	High  int          `attr:"high" range:"int64" doc:"exclusive upper bound"`
	Size  []sym.Int    `attr:"size" doc:"sizes of the result"`
	DType tensor.DType `attr:"dtype" default:"int64" doc:"dtype of the result"`
	Seed  int          `attr:"seed" default:"0" range:"int64" doc:"seed; the same seed gives the same numbers"`
}

// Randint is torch.randint.
var Randint = kit.ElementOp[*randintAttrs](graph.Op{Semantics: graph.Semantics{
	Name: "randint", Doc: "Creates random integers in [low, high).",
	Examples: []graph.Example{{Attrs: graph.Attrs{"high": 10, "size": []int{2, 3}}}},
}}, func(c *graph.Call) (tensor.Type, error) {
	attrs := kit.Attrs[*randintAttrs](c)
	if err := attrs.check(); err != nil {
		return tensor.Type{}, err
	}
	return kit.FreshType(attrs.DType, attrs.Size)
}, func(c *graph.Call) func(i int) tensor.Scalar {
	attrs := kit.Attrs[*randintAttrs](c)
	return func(i int) tensor.Scalar {
		words := philox(uint64(i), uint64(attrs.Seed))
		// aboveLow = floor(word * (High-Low) / 2^64) for a random word of 64 bits
		aboveLow, _ := bits.Mul64(joinWords(words[0], words[1]), uint64(attrs.High)-uint64(attrs.Low))
		return tensor.IntScalar(int64(attrs.Low) + int64(aboveLow))
	}
})

// check fails if the range is empty, or if the dtype cannot hold its bounds.
func (attrs *randintAttrs) check() error {
	switch {
	case attrs.Low >= attrs.High:
		return fmt.Errorf("random_ expects 'from' to be less than 'to', but got from=%d >= to=%d", attrs.Low, attrs.High)
	case attrs.DType.IsComplex():
		return errors.New("check_random_bounds handles only integral, floating-point and boolean types")
	case !kit.InRange(attrs.Low, attrs.DType):
		return fmt.Errorf("from is out of bounds for %s", kit.CppName(attrs.DType))
	case !kit.InRange(attrs.High-1, attrs.DType):
		return fmt.Errorf("to - 1 is out of bounds for %s", kit.CppName(attrs.DType))
	}
	return nil
}

type seedAttrs struct {
	Seed int `attr:"seed" default:"0" range:"int64" doc:"seed; the same seed gives the same numbers"`
}

// Bernoulli draws ones and zeros with given probabilities.
var Bernoulli = kit.Define[*seedAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "bernoulli",
		Doc: "Draws 1 with the probability given by each element of self, else 0. The " +
			"result is row-major.",
		Params: []graph.Param{kit.Self},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			selfType := c.Type(0)
			if !selfType.DType.IsFloat() {
				return nil, kit.NotImplementedBy("bernoulli_tensor_cpu_p_", selfType.DType)
			}
			return c.NewResult(selfType.RowMajor()), nil
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) (_ []*tensor.Tensor, firstErr error) {
			out := tensor.Zeros(in[0].DType, in[0].Shape...)
			i, seed := 0, uint64(kit.Attrs[*seedAttrs](c).Seed)
			kit.EachIndex(out.Shape, func(coords []int) {
				drawn, err := bernoulliAt(i, seed, in[0].At(coords...).Float())
				out.Set(tensor.FloatScalar(drawn), coords...)
				firstErr = cmp.Or(firstErr, err)
				i++
			})
			return []*tensor.Tensor{out}, firstErr
		},
		Examples: kit.OneExample(kit.F32(0, 3), nil),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			seed := uint64(kit.Attrs[*seedAttrs](c).Seed)
			return drawKernel(c, func(i int, p float64) (float64, error) { return bernoulliAt(i, seed, p) }), nil
		},
	},
})

// bernoulliAt returns element i of the result of bernoulli, in row-major order, for the probability p. It fails if p is
// not in [0, 1].
func bernoulliAt(i int, seed uint64, p float64) (float64, error) {
	switch {
	case !(p >= 0 && p <= 1):
		return 0, fmt.Errorf("Expected p_in >= 0 && p_in <= 1 to be true, but got false: %v", p)
	case uniform(philox(uint64(i), seed), tensor.Float64) < p:
		return 1, nil
	}
	return 0, nil
}

// drawKernel returns a kernel that computes each element of the result by a function of the row-major index i and of
// the corresponding element of operand 0.
func drawKernel(c *graph.Call, compute func(i int, element float64) (float64, error)) *graph.Kernel {
	const grain = machine.CallGrain
	const noStep = 0 // a conversion of one element does not use the distance between elements
	selfMeta, out := c.Meta(0), c.Out[0]
	elements := out.Numel()
	outStrides, inStrides := kit.ByteStrides(out), kit.ByteStrides(selfMeta)
	toFloat64, fromFloat64 := tensor.Converter(tensor.Float64, selfMeta.DType),
		tensor.Converter(out.DType, tensor.Float64)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: kit.DivUp(elements, grain),
		Run: func(mem *graph.Mem, chunk int) error {
			for i := chunk * grain; i < min(elements, (chunk+1)*grain); i++ {
				outOffset, inOffset, remaining := 0, 0, i // offsets in bytes
				for dim := out.Rank() - 1; dim >= 0; dim-- {
					index := remaining % out.Shape[dim]
					remaining /= out.Shape[dim]
					outOffset, inOffset = outOffset+index*outStrides[dim], inOffset+index*inStrides[dim]
				}
				var element float64
				toFloat64(unsafe.Pointer(&element), unsafe.Add(mem.Ptrs[1], inOffset), noStep, noStep, 1)
				drawn, err := compute(i, element)
				if err != nil {
					return err
				}
				fromFloat64(unsafe.Add(mem.Ptrs[0], outOffset), unsafe.Pointer(&drawn), noStep, noStep, 1)
			}
			return nil
		}}}}
}

type dropoutAttrs struct {
	P     float64 `attr:"p" default:"0.5" doc:"probability that an element becomes 0"`
	Train bool    `attr:"train" default:"false" doc:"drop elements; else return self"`
	Seed  int     `attr:"seed" default:"0" range:"int64" doc:"seed of the random numbers"`
}

// Dropout is aten::dropout.
var Dropout = kit.Define[*dropoutAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "dropout",
		Doc: "Returns self if `train` is not set. Otherwise it sets each element to 0 with probability `p` and divides " +
			"the other elements by 1 - p.",
		Params: []graph.Param{kit.Input}, Kind: graph.View,
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, selfType := kit.Attrs[*dropoutAttrs](call), call.Type(0)
			if !(attrs.P >= 0 && attrs.P <= 1) {
				return nil, fmt.Errorf("dropout probability has to be between 0 and 1, but got %v", attrs.P)
			}
			if !attrs.Train {
				return call.AliasResult(selfType, 0), nil
			}
			if !selfType.DType.IsFloat() {
				return nil, errors.New("result type Float can't be cast to the desired output type " +
					selfType.DType.TorchName())
			}
			out, err := kit.LikeType(selfType, tensor.Preserve)
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			attrs := kit.Attrs[*dropoutAttrs](c)
			if !attrs.Train {
				return []*tensor.Tensor{in[0]}, nil
			}
			out, i := tensor.Zeros(in[0].DType, in[0].Shape...), 0
			kit.EachIndex(out.Shape, func(coords []int) {
				out.Set(tensor.FloatScalar(attrs.element(i, in[0].At(coords...).Float())), coords...)
				i++
			})
			return []*tensor.Tensor{out}, nil
		},
		Examples: []graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}},
			{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5)}, Attrs: graph.Attrs{"train": true, "p": 0.3}}},
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			attrs := kit.Attrs[*dropoutAttrs](c)
			if !attrs.Train {
				return copies.CompileCopy(c) // the result is not a view: its layout is pinned
			}
			return drawKernel(c, func(i int, x float64) (float64, error) { return attrs.element(i, x), nil }), nil
		},
	},
})

// element returns element i of the result for the element x of self, in training.
func (attrs *dropoutAttrs) element(i int, x float64) float64 {
	if uniform(philox(uint64(i), uint64(attrs.Seed)), tensor.Float64) < attrs.P {
		return 0
	}
	return x / (1 - attrs.P)
}
