package composite

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/kernels/internal/pointwise"
	"github.com/graphrun/graphrun/kernels/internal/product"
	"github.com/graphrun/graphrun/kernels/internal/view"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type tensordotAttrs struct {
	DimsSelf  []int `attr:"dims_self" doc:"dimensions of self to contract"`
	DimsOther []int `attr:"dims_other" doc:"dimensions of other to contract, in the same order"`
}

type addScaledAttrs struct {
	Beta  tensor.Scalar `attr:"beta" default:"1" doc:"factor of self; if it is 0, self is not read"`
	Alpha tensor.Scalar `attr:"alpha" default:"1" doc:"factor of the product"`
}

// Products of tensors. The function of an op applies other ops (steps.go) and returns the result.
var (
	Tensordot = defineOneResult(graph.Semantics{
		Name: "tensordot", Doc: "Multiplies two tensors and adds the products over pairs of dimensions.", Params: pair,
		Examples: []graph.Example{kit.Example(graph.Attrs{"dims_self": []int{1}, "dims_other": []int{0}},
			kit.F32(2, 3), kit.F32(3, 4))},
	}, func(s applier, a *tensordotAttrs, in []*graph.Arg) *graph.Arg {
		return s.tensordot(in[0], in[1], a.DimsSelf, a.DimsOther)
	})
	Inner = defineOneResult(graph.Semantics{
		Name: "inner", Doc: "Returns the inner products of the last dimensions of self and `other`.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3), kit.F32(4, 3))},
	}, inner)
	Vdot = defineOneResult(graph.Semantics{
		Name: "vdot", Doc: "Returns the inner product of the vectors self and `other`; " +
			"self is conjugated.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.F32(3), kit.F32(3))},
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		x := in[0]
		if x.Type().DType.IsComplex() {
			x = s.Apply(pointwise.ConjPhysical, nil, x)
		}
		return s.Apply(product.Dot, nil, x, in[1])
	})
	Kron = defineOneResult(graph.Semantics{
		Name: "kron", Doc: "Returns the Kronecker product.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.TransposedMatrix, kit.FloatRow)},
	}, kron)
	Addmv = defineOneResult(graph.Semantics{
		Name: "addmv", Doc: "Returns beta * self + alpha * (mat times vec), for a matrix and a vector.",
		Params:   []graph.Param{kit.Self, {Name: "mat"}, {Name: "vec"}},
		Examples: []graph.Example{kit.Example(graph.Attrs{"beta": 0.5}, kit.F32(2), kit.TransposedMatrix, kit.F32(3))},
	}, addmv)
	Addr = defineOneResult(graph.Semantics{
		Name: "addr", Doc: "Returns beta * self + alpha * (outer product of vec1 and vec2).",
		Params:   []graph.Param{kit.Self, {Name: "vec1"}, {Name: "vec2"}},
		Examples: []graph.Example{kit.Example(graph.Attrs{"beta": 0.5}, kit.TransposedMatrix, kit.F32(2), kit.F32(3))},
	}, addr)
	Addbmm = defineOneResult(graph.Semantics{
		Name: "addbmm", Doc: "Returns beta * self + alpha * (sum over the batch of batch1 times batch2): [b, m, k] and " +
			"[b, k, n] give [m, n].",
		Params:   []graph.Param{kit.Self, {Name: "batch1"}, {Name: "batch2"}},
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 5), kit.F32(2, 3, 4), kit.F32(2, 4, 5))},
	}, addbmm)
	Bilinear = defineOneResult(graph.Semantics{
		Name: "bilinear", Doc: "Returns input1^T weight[k] input2 + bias[k] for each k and each pair of vectors along " +
			"the last dimensions of `input1` and `input2`.",
		Params: []graph.Param{{Name: "input1"}, {Name: "input2"}, {Name: "weight"}, kit.OptBias},
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 5, 3), kit.F32(2, 5, 4), kit.F32(6, 3, 4), kit.F32(6)),
			kit.Example(nil, kit.F32(3), kit.F32(4), kit.F32(6, 3, 4))},
	}, bilinear)
)

// tensordot multiplies x and y and adds the products over pairs of dimensions. It is the product of a matrix [rows,
// terms] and a matrix [terms, columns], where the terms are the contracted dimensions. For example, x [2, 3, 4] and y
// [4, 3, 5] contracted over dimensions 1, 2 of x and 1, 0 of y are matrices [2, 12] and [12, 5].
func (s applier) tensordot(x, y *graph.Arg, dimsX, dimsY []int) *graph.Arg {
	x, y, contractedX, contractedY := s.alignContracted(x, y, dimsX, dimsY)
	freeX, freeY := remaining(len(s.shape(x)), contractedX), remaining(len(s.shape(y)), contractedY)
	var productShape []sym.Int
	rows, terms, columns := sym.Of(1), sym.Of(1), sym.Of(1)
	for _, dim := range freeX {
		productShape, rows = append(productShape, s.shape(x)[dim]), rows.Mul(s.shape(x)[dim])
	}
	for _, dim := range freeY {
		productShape, columns = append(productShape, s.shape(y)[dim]), columns.Mul(s.shape(y)[dim])
	}
	for _, dim := range contractedX {
		terms = terms.Mul(s.shape(x)[dim])
	}
	x = s.reshape(s.Apply(view.Permute, graph.Attrs{"dims": append(freeX, contractedX...)}, x), rows, terms)
	y = s.reshape(s.Apply(view.Permute, graph.Attrs{"dims": append(contractedY, freeY...)}, y), terms, columns)
	return s.reshape(s.Apply(product.Mm, nil, x, y), productShape...)
}

// alignContracted checks the pairs of dimensions of tensordot and wraps negative dimensions. If one dimension of a pair
// has size 1, it is broadcast: the other operand is summed over its dimension of the pair.
func (s applier) alignContracted(x, y *graph.Arg, dimsX, dimsY []int) (alignedX, alignedY *graph.Arg, contractedX,
	contractedY []int) {
	s.Reject(len(dimsX) != len(dimsY), "both dimension lists should have same length")
	for i := range dimsX {
		dimX, dimY := s.wrapDim(x, dimsX[i]), s.wrapDim(y, dimsY[i])
		s.Reject(slices.Contains(contractedX, dimX), "dim %d appears multiple times in the list of dims", dimX)
		s.Reject(slices.Contains(contractedY, dimY), "dim %d appears multiple times in the list of dims", dimY)
		s.Reject(len(s.shape(x)) == 0 || len(s.shape(y)) == 0,
			"Dimension specified as %d but tensor has no dimensions", dimsX[i])
		sizeX, sizeY := s.shape(x)[dimX], s.shape(y)[dimY]
		switch {
		case kit.SizeIs(sizeY, 1):
			x = s.sum(x, keepDims, []int{dimX})
		case kit.SizeIs(sizeX, 1):
			y = s.sum(y, keepDims, []int{dimY})
		default:
			s.Reject(sizeX.Ne(sizeY).Holds(), "contracted dimensions need to match, but first has size %v in dim %d and "+
				"second has size %v in dim %d", sizeX, dimX, sizeY, dimY)
		}
		contractedX, contractedY = append(contractedX, dimX), append(contractedY, dimY)
	}
	return x, y, contractedX, contractedY
}

// remaining returns the dimensions below rank that are not in dims.
func remaining(rank int, dims []int) []int {
	var out []int
	for dim := range rank {
		if !slices.Contains(dims, dim) {
			out = append(out, dim)
		}
	}
	return out
}

// inner is tensordot over the last dimensions. If an operand has no dimensions, it multiplies each element.
func inner(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	xShape, yShape := s.shape(in[0]), s.shape(in[1])
	if len(xShape) == 0 || len(yShape) == 0 {
		return s.mul(in[0], in[1])
	}
	s.Reject(xShape[len(xShape)-1].Ne(yShape[len(yShape)-1]).Holds(), "inner() the last dimension must match on both "+
		"input tensors but got shapes %s and %s", tensor.Sizes(xShape), tensor.Sizes(yShape))
	return s.tensordot(in[0], in[1], []int{-1}, []int{-1})
}

// kron multiplies the elements of x, in the shape [a, 1, b, 1], by the elements of y, in the shape [1, c, 1, d], and
// returns the products in the shape [a*c, b*d].
func kron(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	xShape, yShape := s.shape(in[0]), s.shape(in[1])
	rank := max(len(xShape), len(yShape))
	xShape, yShape = padOnes(xShape, rank), padOnes(yShape, rank)
	one := sym.Of(1)
	var left, right, resultShape []sym.Int
	for dim := range rank {
		left, right = append(left, xShape[dim], one), append(right, one, yShape[dim])
		resultShape = append(resultShape, xShape[dim].Mul(yShape[dim]))
	}
	return s.reshape(s.mul(s.reshape(in[0], left...), s.reshape(in[1], right...)), resultShape...)
}

// addmv is addmm with one column: the vectors become matrices with one column.
func addmv(s applier, a *addScaledAttrs, in []*graph.Arg) *graph.Arg {
	selfShape, matShape, vecShape := s.shape(in[0]), s.shape(in[1]), s.shape(in[2])
	s.Reject(len(matShape) != 2 || len(vecShape) != 1 || len(selfShape) > 1,
		"vector + matrix @ vector expected, got %d, %d, %d", len(selfShape), len(matShape), len(vecShape))
	canBroadcastSelf := func() bool {
		return len(selfShape) == 0 || !selfShape[0].Ne(matShape[0]).Holds() || kit.SizeIs(selfShape[0], 1)
	}
	s.Reject(matShape[1].Ne(vecShape[0]).Holds() || !canBroadcastSelf(),
		"size mismatch, got input (%v), mat (%vx%v), vec (%v)", matShape[0], matShape[0], matShape[1], vecShape[0])
	if dtype := in[1].Type().DType; dtype == tensor.Bool {
		s.Check(kit.NotImplementedBy("addmv_impl_cpu", dtype))
	}
	attrs := graph.Attrs{"beta": a.Beta, "alpha": a.Alpha}
	sums := s.Apply(product.Addmm, attrs, s.unsqueeze(in[0], -1), in[1], s.unsqueeze(in[2], 1))
	return s.selectIndex(sums, 1, 0)
}

// addr multiplies a column by a row.
func addr(s applier, a *addScaledAttrs, in []*graph.Arg) *graph.Arg {
	for i, x := range in[1:] {
		rank := len(s.shape(x))
		s.Reject(rank != 1, "addr: Expected 1-D argument vec%d, but got %d-D", i+1, rank)
	}
	dtype := s.commonDType(in...)
	checkFactor := func(factor tensor.Scalar, name string) {
		s.Reject(dtype.IsIntegral(true) && factor.DType().IsFloat(),
			"For integral input tensors, argument %s must not be a floating point number.", name)
	}
	checkFactor(a.Beta, "beta")
	checkFactor(a.Alpha, "alpha")
	x, column, row := s.to(in[0], dtype), s.unsqueeze(s.to(in[1], dtype), 1), s.to(in[2], dtype)
	// PyTorch computes the result in one iteration over three operands, as where does.
	layout := s.TypeOf(pointwise.Where, nil, s.to(x, tensor.Bool), column, row)
	result := s.mul(s.mul(number(a.Alpha), column), row)
	if a.Beta.Complex() != 0 {
		result = s.add(s.mul(number(a.Beta), x), result)
	} else { // self is not read, but must have a valid shape
		_, err := tensor.BroadcastSizes(x.Type().Shape, result.Type().Shape)
		s.Check(err)
	}
	return s.WithLayout(s.to(result, dtype), layout)
}

// addbmm multiplies [b, m, k] and [b, k, n], and sums over the batch, as one product of [m, b*k] and [b*k, n].
func addbmm(s applier, a *addScaledAttrs, in []*graph.Arg) *graph.Arg {
	leftShape, rightShape := s.shape(in[1]), s.shape(in[2])
	s.Reject(len(leftShape) != 3, "batch1 must be a 3D tensor")
	s.Reject(len(rightShape) != 3, "batch2 must be a 3D tensor")
	s.Reject(leftShape[0].Ne(rightShape[0]).Holds(), "batch1 and batch2 must have same number of batches, got %v and %v",
		leftShape[0], rightShape[0])
	s.Reject(leftShape[2].Ne(rightShape[1]).Holds(), "Incompatible matrix sizes for bmm (%vx%v and %vx%v)", leftShape[1],
		leftShape[2], rightShape[1], rightShape[2])
	left := s.reshape(s.transpose(in[1], 0, 1), leftShape[1], leftShape[0].Mul(leftShape[2]))
	right := s.reshape(in[2], rightShape[0].Mul(rightShape[1]), rightShape[2])
	return s.Apply(product.Addmm, graph.Attrs{"beta": a.Beta, "alpha": a.Alpha}, in[0], left, right)
}

// bilinear multiplies the outer products of input1 [..., n1] and input2 [..., n2], as a matrix [batch, n1*n2], by the
// transpose of weight [out, n1*n2].
func bilinear(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	s.checkBilinear(in)
	xShape, weightShape := s.shape(in[0]), s.shape(in[2])
	batchShape := xShape[:len(xShape)-1]
	batch, terms, one := tensor.Product(batchShape), weightShape[1].Mul(weightShape[2]), sym.Of(1)
	products := s.mul(s.reshape(in[0], batch, weightShape[1], one), s.reshape(in[1], batch, one, weightShape[2]))
	matrix := s.transpose(s.reshape(in[2], weightShape[0], terms), 0, 1)
	out := s.reshape(s.Apply(product.Mm, nil, s.reshape(products, batch, terms), matrix),
		slices.Concat(batchShape, weightShape[:1])...)
	if bias := in[3]; bias.Kind != graph.Null {
		biasShape := s.shape(bias)
		s.Reject(len(biasShape) == 0 || biasShape[0].Ne(weightShape[0]).Holds(),
			bilinearName+"bias size does not match weight size: got %s but expected %v", tensor.Sizes(biasShape),
			weightShape[0])
		return s.add(out, bias)
	}
	return out
}

// bilinearName is the start of the error messages of bilinear.
const bilinearName = "bilinear(): "

// checkBilinear rejects shapes and dtypes that bilinear does not support.
func (s applier) checkBilinear(in []*graph.Arg) {
	const name = bilinearName
	xShape, yShape, weightShape := s.shape(in[0]), s.shape(in[1]), s.shape(in[2])
	rank := len(xShape)
	s.Reject(rank != len(yShape), name+"input dimensions do not match: got %d and %d", rank, len(yShape))
	s.Reject(rank == 0 || len(weightShape) != 3, name+"expected inputs with dimensions and a weight with 3 dimensions, "+
		"but got %d and %d", rank, len(weightShape))
	for dim := range rank - 1 {
		s.Reject(xShape[dim].Ne(yShape[dim]).Holds(), name+"input batch dimensions do not match at dim %d: got %v and %v",
			dim, xShape[dim], yShape[dim])
	}
	for i, size := range []sym.Int{xShape[rank-1], yShape[rank-1]} {
		s.Reject(size.Ne(weightShape[1+i]).Holds(), name+"input%d size does not match weight size: got %v but expected %v",
			i+1, size, weightShape[1+i])
	}
	for _, shape := range [][]sym.Int{xShape, yShape} {
		s.Reject(kit.SizeIs(shape[rank-1], 0), name+"cannot reshape an input of shape %s into matrices with 0 columns",
			tensor.Sizes(shape))
	}
	for _, operand := range in[1:3] {
		s.Reject(operand.Type().DType != in[0].Type().DType,
			name+"expected the same dtype of all operands, but got %s and %s",
			in[0].Type().DType.TorchName(), operand.Type().DType.TorchName())
	}
}

// Tensors joined to one.
var (
	BlockDiag = defineOneResult(graph.Semantics{
		Name: "block_diag", Doc: "Creates a matrix with the matrices along its diagonal and 0 elsewhere; vectors " +
			"are rows.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(3), kit.F32())},
	}, blockDiag)
	CartesianProd = defineOneResult(graph.Semantics{
		Name: "cartesian_prod", Doc: "Returns all combinations of elements of vectors, one per row.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2), kit.F32(3))},
	}, cartesianProd)
	ColumnStack = defineOneResult(graph.Semantics{
		Name: "column_stack", Doc: "Concatenates tensors along the second dimension; vectors are columns.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(2))},
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		columns := slices.Clone(in)
		for i, x := range in {
			if x.Type().Rank() <= 1 {
				columns[i] = s.reshape(x, x.Type().Numel(), sym.Of(1))
			}
		}
		return s.Apply(view.Hstack, nil, columns...)
	})
	Dstack = defineOneResult(graph.Semantics{
		Name: "dstack", Doc: "Concatenates tensors along the third dimension; matrices get a third dimension of size 1.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(2, 1, 2))},
	}, func(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
		planes := slices.Clone(in)
		for i, x := range in {
			planes[i] = s.atLeast(x, 3)
		}
		return s.Apply(view.Cat, graph.Attrs{"dim": 2}, planes...)
	})
)

// blockDiag pads each matrix with columns of 0, at the left and at the right, to the total number of columns, and
// concatenates the rows.
func blockDiag(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	dtype := s.commonDType(in...)
	totalColumns := sym.Of(0)
	matrices := make([]*graph.Arg, len(in))
	for i, x := range in {
		s.Reject(len(s.shape(x)) > 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %d "+
			"has %d dimensions", i, len(s.shape(x)))
		matrices[i] = s.atLeast(s.to(x, dtype), 2)
		totalColumns = totalColumns.Add(s.shape(matrices[i])[1])
	}
	columnsBefore := sym.Of(0)
	for i, x := range matrices {
		columns := s.shape(x)[1]
		matrices[i] = s.pad(x, columnsBefore, totalColumns.Sub(columnsBefore).Sub(columns))
		columnsBefore = columnsBefore.Add(columns)
	}
	return s.Apply(view.Cat, nil, matrices...)
}

// cartesianProd expands each vector to the shape of the grid of all combinations. The flattened grids are the columns
// of the result. For the vectors a, b and c, d, e:
//
//	grids:    a a a   c d e        rows: ac, ad, ae, bc, bd, be
//	          b b b   c d e
func cartesianProd(s applier, _ *kit.EmptyAttrs, in []*graph.Arg) *graph.Arg {
	for _, x := range in {
		s.Reject(len(s.shape(x)) != 1, "Expect a 1D vector, but got shape %s", tensor.Sizes(s.shape(x)))
	}
	if len(in) == 1 {
		return s.Apply(view.Alias, nil, in[0])
	}
	for _, x := range in {
		s.Reject(x.Type().DType != in[0].Type().DType, "meshgrid expects all tensors to have the same dtype")
	}
	var gridShape []sym.Int
	for _, x := range in {
		gridShape = append(gridShape, s.shape(x)...)
	}
	columns := make([]*graph.Arg, len(in))
	for i, x := range in {
		x = s.reshape(x, append(sym.Ints(-1), padOnes(nil, len(in)-1-i)...)...)
		columns[i] = s.reshape(s.Apply(view.Expand, graph.Attrs{"size": gridShape}, x), sym.Of(-1))
	}
	return s.Apply(view.Stack, graph.Attrs{"dim": 1}, columns...)
}
