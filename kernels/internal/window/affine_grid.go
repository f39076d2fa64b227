package window

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type affineGridAttrs struct {
	Size         []sym.Int `attr:"size" doc:"sizes of the images or volumes to sample, [N,C,H,W] or [N,C,D,H,W]"`
	AlignCorners bool      `attr:"align_corners" default:"false" doc:"-1 and 1 are the centres of the outermost elements, not their edges"`
}

// AffineGridGenerator is aten::affine_grid_generator.
var AffineGridGenerator = kit.Define[affineGridAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "affine_grid_generator",
		Doc: "Creates the grid with which grid_sampler applies the affine maps `theta`, [N,2,3] for images or " +
			"[N,3,4] for volumes.",
		Params: []graph.Param{{Name: "theta"}},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			a, t := kit.Attrs[affineGridAttrs](call), call.Type(0)
			n := len(a.Size) - 2
			if n != 2 && n != 3 {
				return nil, errors.New("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
			}
			if t.Rank() != 3 || t.Shape[0].Ne(a.Size[0]).Holds() || !kit.SizeIs(t.Shape[1], n) || !kit.SizeIs(t.Shape[2], n+1) {
				return nil, fmt.Errorf("Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.", n, n, n+1,
					tensor.Sizes(a.Size), tensor.Sizes(t.Shape))
			}
			if t.DType == tensor.Bool {
				return nil, kit.NotImplementedBy("linspace_cpu", t.DType)
			}
			out, err := kit.FreshType(t.DType, affineShape(a.Size))
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			switch d := in[0].DType; {
			case d.IsComplex():
				return affineReference[complex128](c, in[0]), nil
			case d.IsFloat():
				return affineReference[float64](c, in[0]), nil
			}
			return affineReference[int64](c, in[0]), nil
		},
		Examples: kit.OneExample(kit.F32(2, 2, 3), graph.Attrs{"size": []int{2, 1, 3, 4}}),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			switch d := c.Meta(0).DType; {
			case d.IsComplex():
				return affineKernel[complex128](c)
			case d.IsFloat():
				return affineKernel[float64](c)
			}
			return affineKernel[int64](c)
		},
	},
})

// affineKernel returns the kernel of a grid. It computes in T, the widest dtype of theta's kind. Coordinate 0 is x,
// along the last spatial dimension of the images.
func affineKernel[T kit.WidestNumber](call *graph.Call) (*graph.Kernel, error) {
	out, theta := call.Out[0], call.Meta(0)
	dims := out.Rank() - 2
	positions := kit.NewLineSet(out.Shape, dims+1, out) // all indices of the grid but its last, the index of a coordinate
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	var coordinates [3][]T
	for k := range dims {
		coordinates[k] = affineCoordinates[T](out.Shape[dims-k], theta.DType, kit.Attrs[affineGridAttrs](call).AlignCorners)
	}
	size, dtype := theta.DType.Size(), tensor.DTypeOf[T]()
	read, write := tensor.Converter(dtype, theta.DType), tensor.Converter(theta.DType, dtype)
	const positionsPerChunk = machine.GatherGrain / 16
	chunks := kit.DivUp(positions.Count, positionsPerChunk)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
		for i := chunk * positionsPerChunk; i < min(positions.Count, (chunk+1)*positionsPerChunk); i++ {
			var point [3]T // the coordinates of position i of the identity map
			rest := i      // after the loop: the index in the batch
			for k := range dims {
				extent := out.Shape[dims-k]
				point[k] = coordinates[k][rest%extent]
				rest /= extent
			}
			dst := unsafe.Add(mem.Ptrs[0], positions.Offsets(i)[0])
			for row := range dims {
				var sum T
				for k := range dims + 1 {
					var term T
					read(unsafe.Pointer(&term), unsafe.Add(mem.Ptrs[1],
						(rest*theta.Strides[0]+row*theta.Strides[1]+k*theta.Strides[2])*size), 0, 0, 1)
					if k < dims {
						term *= point[k]
					}
					sum += term
				}
				write(unsafe.Add(dst, row*kit.ByteStride(out, dims+1)), unsafe.Pointer(&sum), 0, 0, 1)
			}
		}
		return nil
	}}}}, nil
}

// affineReference is the reference implementation of affineKernel.
func affineReference[T kit.WidestNumber](c *graph.Call, theta *tensor.Tensor) []*tensor.Tensor {
	attrs := kit.Attrs[affineGridAttrs](c)
	dims := len(attrs.Size) - 2
	out := tensor.Zeros(theta.DType, kit.KnownSizes(affineShape(attrs.Size))...)
	kit.EachIndex(out.Shape, func(index []int) {
		sum := kit.ScalarAs[T](theta.At(index[0], index[dims+1], dims))
		for k := range dims {
			coordinate := affineCoordinates[T](out.Shape[dims-k], theta.DType, attrs.AlignCorners)[index[dims-k]]
			sum += T(kit.ScalarAs[T](theta.At(index[0], index[dims+1], k)) * coordinate)
		}
		s, _ := tensor.ScalarOf(sum)
		out.Set(s, index...)
	})
	return []*tensor.Tensor{out}
}

// affineShape returns the shape of the grid for images or volumes of the given sizes.
func affineShape(size []sym.Int) []sym.Int {
	return append(append([]sym.Int{size[0]}, size[2:]...), sym.Of(len(size)-2))
}

// affineCoordinates returns the coordinates of n elements along a dimension. If alignCorners is set, the first is -1
// and the last is 1. Otherwise -1 and 1 are the outer edges of the first and of the last element. The coordinate of a
// single element is 0. Integer coordinates are aten's: linspace from -1 to 1 in dtype and, without alignCorners,
// multiplication by n-1 in dtype, division by n in float32, and truncation.
func affineCoordinates[T kit.WidestNumber](n int, dtype tensor.DType, alignCorners bool) []T {
	coordinates := make([]T, n)
	if n <= 1 {
		return coordinates
	}
	for i := range coordinates {
		x := tensor.FloatScalar((2*float64(i)+1)/float64(n) - 1)
		switch {
		case dtype.IsIntegral(true):
			x = kit.LinspaceElement(tensor.IntScalar(-1), tensor.IntScalar(1), n, dtype)(i).Tensor(dtype).At()
			if !alignCorners {
				// The conversion to a tensor and back wraps the product to dtype.
				product := tensor.IntScalar(x.Int() * int64(n-1)).Tensor(dtype).At()
				x = tensor.IntScalar(int64(float32(product.Int()) / float32(n)))
			}
		case alignCorners:
			x = tensor.FloatScalar(2*float64(i)/float64(n-1) - 1)
		}
		coordinates[i] = kit.ScalarAs[T](x)
	}
	return coordinates
}
