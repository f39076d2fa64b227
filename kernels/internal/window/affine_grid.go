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

// AffineGridGenerator is aten::affine_grid_generator. For images, the result is [N,H,W,2]. Its point at (n, i, j) is
// theta[n] * (x[j], y[i], 1), where x[j] and y[i] are the coordinates of column j and row i (affineCoordinates). For
// volumes, the result is [N,D,H,W,3], and the point is theta[n] * (x, y, z, 1).
var AffineGridGenerator = kit.Define[*affineGridAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "affine_grid_generator",
		Doc: "Creates the grid with which grid_sampler applies the affine maps `theta`, [N,2,3] for images or " +
			"[N,3,4] for volumes.",
		Params: []graph.Param{{Name: "theta"}},
		Infer: func(call *graph.Call) ([]graph.Result, error) {
			attrs, theta := kit.Attrs[*affineGridAttrs](call), call.Type(0)
			dims := len(attrs.Size) - 2
			if dims != 2 && dims != 3 {
				return nil, errors.New("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
			}
			if theta.Rank() != 3 || theta.Shape[0].Ne(attrs.Size[0]).Holds() ||
				!kit.SizeIs(theta.Shape[1], dims) || !kit.SizeIs(theta.Shape[2], dims+1) {
				return nil, fmt.Errorf("Expected a batch of %dD affine matrices of shape Nx%dx%d for size %s. Got %s.",
					dims, dims, dims+1, tensor.Sizes(attrs.Size), tensor.Sizes(theta.Shape))
			}
			if theta.DType == tensor.Bool {
				return nil, kit.NotImplementedBy("linspace_cpu", theta.DType)
			}
			out, err := kit.FreshType(theta.DType, affineShape(attrs.Size))
			return call.NewResult(out), err
		},
		Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			switch dtype := in[0].DType; {
			case dtype.IsComplex():
				return affineReference[complex128](c, in[0]), nil
			case dtype.IsFloat():
				return affineReference[float64](c, in[0]), nil
			}
			return affineReference[int64](c, in[0]), nil
		},
		Examples: kit.OneExample(kit.F32(2, 2, 3), graph.Attrs{"size": []int{2, 1, 3, 4}}),
	},
	Facts: graph.Facts{WritesAnyDenseLayout: true},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			switch dtype := c.Meta(0).DType; {
			case dtype.IsComplex():
				return affineKernel[complex128](c)
			case dtype.IsFloat():
				return affineKernel[float64](c)
			}
			return affineKernel[int64](c)
		},
	},
})

// affineGrid computes a grid in T, the widest dtype of theta's kind. An axis is a spatial dimension of the images. Axes
// are counted from the last: axis 0 has the coordinate x, axis 1 y, and axis 2 z.
type affineGrid[T kit.WidestNumber] struct {
	dims             int    // number of axes: 2 or 3
	coordinates      [3][]T // coordinates along each axis
	theta            tensor.Meta
	coordinateStride int                // distance in bytes between the coordinates of a point in the result
	read, write      tensor.ConvertFunc // convert elements from the dtype of theta to T, and back
}

// affineKernel returns the kernel of a grid.
func affineKernel[T kit.WidestNumber](call *graph.Call) (*graph.Kernel, error) {
	out, theta := call.Out[0], call.Meta(0)
	dims, dtype := out.Rank()-2, tensor.DTypeOf[T]()
	positions := kit.NewLineSet(out.Shape, dims+1, out) // the indices of points
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	grid := &affineGrid[T]{dims: dims, theta: theta, coordinateStride: kit.ByteStride(out, dims+1),
		read: tensor.Converter(dtype, theta.DType), write: tensor.Converter(theta.DType, dtype)}
	for axis := range dims {
		alignCorners := kit.Attrs[*affineGridAttrs](call).AlignCorners
		grid.coordinates[axis] = affineCoordinates[T](out.Shape[dims-axis], theta.DType, alignCorners)
	}
	const positionsPerChunk = machine.GatherGrain / 16 // for a volume, a position takes 12 reads and 3 writes
	chunks := kit.DivUp(positions.Count, positionsPerChunk)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
		for i := chunk * positionsPerChunk; i < min(positions.Count, (chunk+1)*positionsPerChunk); i++ {
			point, image := grid.pointAt(i)
			grid.transform(unsafe.Add(mem.Ptrs[0], positions.Offsets(i)[0]), mem.Ptrs[1], &point, image)
		}
		return nil
	}}}}, nil
}

// pointAt returns the coordinates of a position in the image, before the transformation, and the index of the image.
// position is a row-major index over images and axes.
func (g *affineGrid[T]) pointAt(position int) (point [3]T, image int) {
	for axis, coordinates := range g.coordinates[:g.dims] {
		point[axis] = coordinates[position%len(coordinates)]
		position /= len(coordinates)
	}
	return point, position
}

// transform stores at dst the product of an image's matrix in theta, [dims, dims+1], and (point, 1).
func (g *affineGrid[T]) transform(dst, theta unsafe.Pointer, point *[3]T, image int) {
	strides, elementBytes := g.theta.Strides, g.theta.DType.Size()
	for row := range g.dims {
		var sum T
		for axis := range g.dims + 1 {
			var term T
			offset := image*strides[0] + row*strides[1] + axis*strides[2]
			g.read(unsafe.Pointer(&term), unsafe.Add(theta, offset*elementBytes), 0, 0, 1)
			if axis < g.dims {
				term *= point[axis]
			}
			sum += term
		}
		g.write(unsafe.Add(dst, row*g.coordinateStride), unsafe.Pointer(&sum), 0, 0, 1)
	}
}

// affineReference is the reference implementation of affineKernel.
func affineReference[T kit.WidestNumber](c *graph.Call, theta *tensor.Tensor) []*tensor.Tensor {
	attrs := kit.Attrs[*affineGridAttrs](c)
	dims := len(attrs.Size) - 2
	out := tensor.Zeros(theta.DType, kit.KnownSizes(affineShape(attrs.Size))...)
	kit.EachIndex(out.Shape, func(index []int) {
		sum := kit.ScalarAs[T](theta.At(index[0], index[dims+1], dims))
		for axis := range dims {
			coordinate := affineCoordinates[T](out.Shape[dims-axis], theta.DType, attrs.AlignCorners)[index[dims-axis]]
			sum += T(kit.ScalarAs[T](theta.At(index[0], index[dims+1], axis)) * coordinate)
		}
		scalar, _ := tensor.ScalarOf(sum)
		out.Set(scalar, index...)
	})
	return []*tensor.Tensor{out}
}

// affineShape returns the shape of the grid for images or volumes of the given sizes.
func affineShape(size []sym.Int) []sym.Int {
	return append(append([]sym.Int{size[0]}, size[2:]...), sym.Of(len(size)-2))
}

// affineCoordinates returns the coordinates of `count` elements along a dimension. If alignCorners is set, the first is
// -1 and the last is 1: four elements have -1, -1/3, 1/3, 1. Otherwise -1 and 1 are the outer edges of the first and of
// the last element: -3/4, -1/4, 1/4, 3/4. The coordinate of a single element is 0.
func affineCoordinates[T kit.WidestNumber](count int, dtype tensor.DType, alignCorners bool) []T {
	coordinates := make([]T, count)
	if count <= 1 {
		return coordinates
	}
	for i := range coordinates {
		coordinate := tensor.FloatScalar((2*float64(i)+1)/float64(count) - 1)
		switch {
		case dtype.IsIntegral(true):
			coordinate = integerCoordinate(i, count, dtype, alignCorners)
		case alignCorners:
			coordinate = tensor.FloatScalar(2*float64(i)/float64(count-1) - 1)
		}
		coordinates[i] = kit.ScalarAs[T](coordinate)
	}
	return coordinates
}

// integerCoordinate returns aten's coordinate of element i for an integer dtype: linspace from -1 to 1 in dtype and,
// without alignCorners, multiplication by count-1 in dtype, division by count in float32, and truncation.
func integerCoordinate(i, count int, dtype tensor.DType, alignCorners bool) tensor.Scalar {
	coordinate := kit.LinspaceElement(tensor.IntScalar(-1), tensor.IntScalar(1), count, dtype)(i).Tensor(dtype).At()
	if alignCorners {
		return coordinate
	}
	// The conversion to a tensor and back wraps the product to dtype.
	product := tensor.IntScalar(coordinate.Int() * int64(count-1)).Tensor(dtype).At()
	return tensor.IntScalar(int64(float32(product.Int()) / float32(count)))
}
