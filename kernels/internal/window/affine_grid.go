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

// AffineGridGenerator is aten::affine_grid_generator. The operand theta has a matrix for each image. The result has a
// point for each pixel of each image. Let n, i and j be the image, the row and the column of a pixel. The coordinates
// of the pixel are (x[j], y[i]), numbers from -1 to 1 (affineCoordinates). The point of the pixel is the product
// theta[n] * (x[j], y[i], 1).
//
// For example, theta [1,2,3] and size [1,3,4,5] give the result [1,4,5,2]: 4x5 points of two numbers. For volumes,
// theta [1,3,4] and size [1,3,6,4,5] give [1,6,4,5,3]. The point of a voxel is theta[n] * (x, y, z, 1).
var AffineGridGenerator = kit.Define[*affineGridAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "affine_grid_generator",
		Doc: "Creates the grid with which grid_sampler applies the affine maps `theta`, [N,2,3] for images or " +
			"[N,3,4] for volumes.",
		Params: []graph.Param{{Name: "theta"}},
		Infer:  inferAffineGrid,
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

// inferAffineGrid makes PyTorch's checks and infers the result.
func inferAffineGrid(call *graph.Call) ([]graph.Result, error) {
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
}

// affineShape returns the shape of the result for images or volumes of the given sizes.
func affineShape(size []sym.Int) []sym.Int {
	return append(append([]sym.Int{size[0]}, size[2:]...), sym.Of(len(size)-2))
}

// affineGrid computes points in T, the widest dtype of theta's kind. Axes are the spatial dimensions in the order of
// coordinates: axis 0 has the coordinates x, axis 1 y, and axis 2 z.
type affineGrid[T kit.WidestNumber] struct {
	dims         int         // number of axes: 2 or 3
	coordinates  [3][]T      // by axis: coordinate at each index along the axis
	theta        tensor.Meta // shape [N, dims, dims+1]
	numberStride int         // distance in bytes between the numbers of a point in the result
	// load and store convert elements from the dtype of theta to T, and from T to this dtype.
	load, store tensor.ConvertFunc // arguments: destination, source, their strides in bytes, number of elements
}

// affineKernel returns the kernel of a call.
func affineKernel[T kit.WidestNumber](call *graph.Call) (*graph.Kernel, error) {
	out, theta := call.Out[0], call.Meta(0)
	dims, dtype := out.Rank()-2, tensor.DTypeOf[T]()
	points := kit.NewLineSet(out.Shape, dims+1, out) // a point is a line along the last dimension of the result
	if out.Numel() == 0 {
		return &graph.Kernel{}, nil
	}
	grid := &affineGrid[T]{dims: dims, theta: theta, numberStride: kit.ByteStride(out, dims+1),
		load: tensor.Converter(dtype, theta.DType), store: tensor.Converter(theta.DType, dtype)}
	for axis := range dims {
		alignCorners := kit.Attrs[*affineGridAttrs](call).AlignCorners
		grid.coordinates[axis] = affineCoordinates[T](out.Shape[dims-axis], theta.DType, alignCorners)
	}
	const pointsPerChunk = machine.GatherGrain / 16 // for a volume, a point takes 12 reads and 3 writes
	chunks := kit.DivUp(points.Count, pointsPerChunk)
	return &graph.Kernel{Phases: []graph.Phase{{Chunks: chunks, Run: func(mem *graph.Mem, chunk int) error {
		for i := chunk * pointsPerChunk; i < min(points.Count, (chunk+1)*pointsPerChunk); i++ {
			coordinates, image := grid.coordinatesOf(i)
			grid.storePoint(unsafe.Add(mem.Ptrs[0], points.Offsets(i)[0]), mem.Ptrs[1], &coordinates, image)
		}
		return nil
	}}}}, nil
}

// coordinatesOf returns the coordinates of a pixel and the index of its image. pixel is a row-major index over the
// pixels of all images.
func (g *affineGrid[T]) coordinatesOf(pixel int) (coordinates [3]T, image int) {
	for axis, list := range g.coordinates[:g.dims] {
		coordinates[axis] = list[pixel%len(list)]
		pixel /= len(list)
	}
	return coordinates, pixel
}

// storePoint stores the point of a pixel at dst: the product of the image's matrix in theta and (coordinates, 1).
func (g *affineGrid[T]) storePoint(dst, theta unsafe.Pointer, coordinates *[3]T, image int) {
	strides, elementBytes := g.theta.Strides, g.theta.DType.Size()
	for row := range g.dims {
		var sum T
		for col := range g.dims + 1 {
			var term T
			offset := image*strides[0] + row*strides[1] + col*strides[2]
			g.load(unsafe.Pointer(&term), unsafe.Add(theta, offset*elementBytes), 0, 0, 1)
			if col < g.dims {
				term = T(term * coordinates[col]) // prevents a fused multiply-add
			}
			sum += term
		}
		g.store(unsafe.Add(dst, row*g.numberStride), unsafe.Pointer(&sum), 0, 0, 1)
	}
}

// affineReference is the reference implementation.
func affineReference[T kit.WidestNumber](c *graph.Call, theta *tensor.Tensor) []*tensor.Tensor {
	attrs := kit.Attrs[*affineGridAttrs](c)
	dims := len(attrs.Size) - 2
	out := tensor.Zeros(theta.DType, kit.KnownSizes(affineShape(attrs.Size))...)
	kit.EachIndex(out.Shape, func(index []int) {
		image, row := index[0], index[dims+1] // row of the matrix
		sum := kit.ScalarAs[T](theta.At(image, row, dims))
		for axis := range dims {
			coordinates := affineCoordinates[T](out.Shape[dims-axis], theta.DType, attrs.AlignCorners)
			sum += T(kit.ScalarAs[T](theta.At(image, row, axis)) * coordinates[index[dims-axis]])
		}
		scalar, _ := tensor.ScalarOf(sum)
		out.Set(scalar, index...)
	})
	return []*tensor.Tensor{out}
}

// affineCoordinates returns the coordinates along an axis of `count` pixels. If alignCorners is set, the centre of the
// first pixel is -1, and the centre of the last pixel is 1: four pixels have the coordinates -1, -1/3, 1/3, 1.
// Otherwise the outer edges of these pixels are -1 and 1: four pixels have the coordinates -3/4, -1/4, 1/4, 3/4. The
// coordinate of a single pixel is 0.
func affineCoordinates[T kit.WidestNumber](count int, dtype tensor.DType, alignCorners bool) []T {
	coordinates := make([]T, count)
	if count <= 1 {
		return coordinates
	}
	for i := range coordinates {
		var coordinate tensor.Scalar
		switch {
		case dtype.IsIntegral(true):
			coordinate = integerCoordinate(i, count, dtype, alignCorners)
		case alignCorners:
			coordinate = tensor.FloatScalar(2*float64(i)/float64(count-1) - 1)
		default:
			coordinate = tensor.FloatScalar((2*float64(i)+1)/float64(count) - 1)
		}
		coordinates[i] = kit.ScalarAs[T](coordinate)
	}
	return coordinates
}

// integerCoordinate returns aten's coordinate of pixel i for an integer dtype. With alignCorners, it is element i of
// linspace(-1, 1, count) in dtype. Without alignCorners, aten multiplies this element by count-1 in dtype, divides the
// product by count in float32, and truncates the quotient.
func integerCoordinate(i, count int, dtype tensor.DType, alignCorners bool) tensor.Scalar {
	coordinate := kit.LinspaceElement(tensor.IntScalar(-1), tensor.IntScalar(1), count, dtype)(i).Tensor(dtype).At()
	if alignCorners {
		return coordinate
	}
	// The conversion to a tensor and back wraps the product to dtype.
	product := tensor.IntScalar(coordinate.Int() * int64(count-1)).Tensor(dtype).At()
	return tensor.IntScalar(int64(float32(product.Int()) / float32(count)))
}
