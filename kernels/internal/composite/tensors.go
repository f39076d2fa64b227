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

// Products of tensors.
var (
	Tensordot = defineOne(graph.Semantics{
		Name: "tensordot", Doc: "Multiplies two tensors and adds the products over pairs of dimensions.", Params: pair,
		Examples: []graph.Example{kit.Example(graph.Attrs{"dims_self": []int{1}, "dims_other": []int{0}}, kit.F32(2,
			3), kit.F32(3, 4))},
	}, func(s steps, a *tensordotAttrs, in []graph.Arg) graph.Arg {
		return s.tensordot(in[0], in[1], a.DimsSelf, a.DimsOther)
	})
	Inner = defineOne(graph.Semantics{
		Name: "inner", Doc: "Returns the inner products of the last dimensions of self and `other`.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 3), kit.F32(4, 3))},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		x, y := s.shape(in[0]), s.shape(in[1])
		if len(x) == 0 || len(y) == 0 {
			return s.mul(in[0], in[1])
		}
		s.Reject(x[len(x)-1].Ne(y[len(y)-1]).Holds(), "inner() the last dimension must match on both input tensors "+
			"but got "+
			"shapes %s and %s", tensor.Sizes(x), tensor.Sizes(y))
		return s.tensordot(in[0], in[1], []int{-1}, []int{-1})
	})
	Vdot = defineOne(graph.Semantics{
		Name: "vdot", Doc: "Returns the inner product of the vectors self and `other`; " +
			"self is conjugated.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.F32(3), kit.F32(3))},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		x := in[0]
		if x.Type().DType.IsComplex() {
			x = s.Apply(pointwise.ConjPhysical, nil, x)
		}
		return s.Apply(product.Dot, nil, x, in[1])
	})
	Kron = defineOne(graph.Semantics{
		Name: "kron", Doc: "Returns the Kronecker product.", Params: pair,
		Examples: []graph.Example{kit.Example(nil, kit.ExTransposed, kit.ExRow)},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		x, y := s.shape(in[0]), s.shape(in[1])
		rank := max(len(x), len(y))
		x, y = padOnes(x, rank), padOnes(y, rank)
		one := sym.Of(1)
		var left, right, whole []sym.Int
		for d := range rank {
			left, right = append(left, x[d], one), append(right, one, y[d])
			whole = append(whole, x[d].Mul(y[d]))
		}
		return s.reshape(s.mul(s.reshape(in[0], left...), s.reshape(in[1], right...)), whole...)
	})
	Addmv = defineOne(graph.Semantics{
		Name: "addmv", Doc: "Returns beta * self + alpha * (mat times vec), for a matrix and a vector.",
		Params:   []graph.Param{kit.Self, {Name: "mat"}, {Name: "vec"}},
		Examples: []graph.Example{kit.Example(graph.Attrs{"beta": 0.5}, kit.F32(2), kit.ExTransposed, kit.F32(3))},
	}, func(s steps, a *addScaledAttrs, in []graph.Arg) graph.Arg {
		x, mat, vec := s.shape(in[0]), s.shape(in[1]), s.shape(in[2])
		s.Reject(len(mat) != 2 || len(vec) != 1 || len(x) > 1, "vector + matrix @ vector expected, got %d, %d, %d", len(x),
			len(mat), len(vec))
		s.Reject(mat[1].Ne(vec[0]).Holds() || len(x) == 1 && x[0].Ne(mat[0]).Holds() && !kit.SizeIs(x[0], 1),
			"size mismatch, got input (%v), mat (%vx%v), vec (%v)", mat[0], mat[0], mat[1], vec[0])
		if d := in[1].Type().DType; d == tensor.Bool {
			s.Check(kit.NotImplementedBy("addmv_impl_cpu", d))
		}
		attrs := graph.Attrs{"beta": a.Beta, "alpha": a.Alpha}
		sums := s.Apply(product.Addmm, attrs, s.unsqueeze(in[0], -1), in[1], s.unsqueeze(in[2], 1))
		return s.selectIndex(sums, 1, 0)
	})
	Addr = defineOne(graph.Semantics{
		Name: "addr", Doc: "Returns beta * self + alpha * (outer product of vec1 and vec2).",
		Params:   []graph.Param{kit.Self, {Name: "vec1"}, {Name: "vec2"}},
		Examples: []graph.Example{kit.Example(graph.Attrs{"beta": 0.5}, kit.ExTransposed, kit.F32(2), kit.F32(3))},
	}, addr)
	Addbmm = defineOne(graph.Semantics{
		Name: "addbmm", Doc: "Returns beta * self + alpha * (sum over the batch of batch1 times batch2): [b, m, k] and " +
			"[b, k, n] give [m, n].",
		Params:   []graph.Param{kit.Self, {Name: "batch1"}, {Name: "batch2"}},
		Examples: []graph.Example{kit.Example(nil, kit.F32(3, 5), kit.F32(2, 3, 4), kit.F32(2, 4, 5))},
	}, addbmm)
	Bilinear = defineOne(graph.Semantics{
		Name: "bilinear", Doc: "Returns input1^T weight[k] input2 + bias[k] for each k and each pair of vectors along " +
			"the last dimensions of `input1` and `input2`.",
		Params: []graph.Param{{Name: "input1"}, {Name: "input2"}, {Name: "weight"}, kit.OptBias},
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 5, 3), kit.F32(2, 5, 4), kit.F32(6, 3, 4), kit.F32(6)),
			kit.Example(nil, kit.F32(3), kit.F32(4), kit.F32(6, 3, 4))},
	}, bilinear)
)

func addr(s steps, a *addScaledAttrs, in []graph.Arg) graph.Arg {
	for i, x := range in[1:] {
		rank := len(s.shape(x))
		s.Reject(rank != 1, "addr: Expected 1-D argument vec%d, but got %d-D", i+1, rank)
	}
	checkFactor := func(v tensor.Scalar, name string) {
		d := s.commonDType(in...)
		s.Reject(d.IsIntegral(true) && v.DType().IsFloat(), "For integral input tensors, argument %s must not be a "+
			"floating point number.", name)
	}
	checkFactor(a.Beta, "beta")
	checkFactor(a.Alpha, "alpha")
	d := s.commonDType(in...)
	x, column, row := s.to(in[0], d), s.unsqueeze(s.to(in[1], d), 1), s.to(in[2], d)
	// PyTorch computes the result in one iteration over three operands, as where does.
	layout := s.TypeOf(pointwise.Where, nil, s.to(x, tensor.Bool), column, row)
	outer := s.mul(s.mul(number(a.Alpha), column), row)
	if a.Beta.Complex() != 0 {
		outer = s.add(s.mul(number(a.Beta), x), outer)
	} else { // self is not read, but must have a valid shape
		_, err := tensor.BroadcastSizes(x.Type().Shape, outer.Type().Shape)
		s.Check(err)
	}
	return s.WithLayout(s.to(outer, d), layout)
}

// addbmm multiplies [b, m, k] and [b, k, n], and adds up the batch, in one product of [m, b*k] and [b*k, n].
func addbmm(s steps, a *addScaledAttrs, in []graph.Arg) graph.Arg {
	x, y := s.shape(in[1]), s.shape(in[2])
	s.Reject(len(x) != 3, "batch1 must be a 3D tensor")
	s.Reject(len(y) != 3, "batch2 must be a 3D tensor")
	s.Reject(x[0].Ne(y[0]).Holds(), "batch1 and batch2 must have same number of batches, got %v and %v", x[0], y[0])
	s.Reject(x[2].Ne(y[1]).Holds(), "Incompatible matrix sizes for bmm (%vx%v and %vx%v)", x[1], x[2], y[1], y[2])
	left := s.reshape(s.transpose(in[1], 0, 1), x[1], x[0].Mul(x[2]))
	right := s.reshape(in[2], y[0].Mul(y[1]), y[2])
	return s.Apply(product.Addmm, graph.Attrs{"beta": a.Beta, "alpha": a.Alpha}, in[0], left, right)
}

// bilinear multiplies the outer products of input1 [..., n1] and input2 [..., n2], as a matrix [batch, n1*n2], by the
// transpose of weight [out, n1*n2].
func bilinear(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
	const name = "bilinear(): "
	x, y, weight := s.shape(in[0]), s.shape(in[1]), s.shape(in[2])
	n := len(x)
	s.Reject(n != len(y), name+"input dimensions do not match: got %d and %d", n, len(y))
	s.Reject(n == 0 || len(weight) != 3, name+"expected inputs with dimensions and a weight with 3 dimensions, but got "+
		"%d and %d", n, len(weight))
	for d := range n - 1 {
		s.Reject(x[d].Ne(y[d]).Holds(), name+"input batch dimensions do not match at dim %d: got %v and %v", d, x[d], y[d])
	}
	for i, size := range []sym.Int{x[n-1], y[n-1]} {
		s.Reject(size.Ne(weight[1+i]).Holds(), name+"input%d size does not match weight size: got %v but expected %v", i+1,
			size, weight[1+i])
	}
	for _, shape := range [][]sym.Int{x, y} {
		s.Reject(kit.SizeIs(shape[n-1], 0), name+"cannot reshape an input of shape %s into matrices with 0 columns",
			tensor.Sizes(shape))
	}
	for _, z := range in[1:3] {
		s.Reject(z.Type().DType != in[0].Type().DType, name+"expected the same dtype of all operands, but got %s and %s",
			in[0].Type().DType.TorchName(), z.Type().DType.TorchName())
	}
	batch, terms, one := tensor.Product(x[:n-1]), weight[1].Mul(weight[2]), sym.Of(1)
	products := s.mul(s.reshape(in[0], batch, weight[1], one), s.reshape(in[1], batch, one, weight[2]))
	matrix := s.transpose(s.reshape(in[2], weight[0], terms), 0, 1)
	out := s.reshape(s.Apply(product.Mm, nil, s.reshape(products, batch, terms), matrix),
		slices.Concat(x[:n-1], weight[:1])...)
	if bias := in[3]; bias.Kind != graph.Null {
		size := s.shape(bias)
		s.Reject(len(size) == 0 || size[0].Ne(weight[0]).Holds(), name+"bias size does not match weight size: got %s but "+
			"expected %v", tensor.Sizes(size), weight[0])
		return s.add(out, bias)
	}
	return out
}

// tensordot multiplies x and y and adds the products over pairs of dimensions. If one dimension of a pair has size 1,
// it is broadcast: the other operand is first summed over its dimension of the pair.
func (s steps) tensordot(x, y graph.Arg, dimsX, dimsY []int) graph.Arg {
	s.Reject(len(dimsX) != len(dimsY), "both dimension lists should have same length")
	var pairs [2][]int
	for i := range dimsX {
		a, b := s.wrapDim(x, dimsX[i]), s.wrapDim(y, dimsY[i])
		s.Reject(slices.Contains(pairs[0], a), "dim %d appears multiple times in the list of dims", a)
		s.Reject(slices.Contains(pairs[1], b), "dim %d appears multiple times in the list of dims", b)
		s.Reject(len(s.shape(x)) == 0 || len(s.shape(y)) == 0,
			"Dimension specified as %d but tensor has no dimensions", dimsX[i])
		m, n := s.shape(x)[a], s.shape(y)[b]
		switch {
		case kit.SizeIs(n, 1):
			x = s.sum(x, true, []int{a})
		case kit.SizeIs(m, 1):
			y = s.sum(y, true, []int{b})
		default:
			s.Reject(m.Ne(n).Holds(), "contracted dimensions need to match, but first has size %v in dim %d and second has "+
				"size %v in dim %d", m, a, n, b)
		}
		pairs[0], pairs[1] = append(pairs[0], a), append(pairs[1], b)
	}
	// The product of matrices [rows, terms] and [terms, columns], where the terms are the pairs of dimensions.
	freeX, freeY := remaining(len(s.shape(x)), pairs[0]), remaining(len(s.shape(y)), pairs[1])
	var productShape []sym.Int
	rows, terms, columns := sym.Of(1), sym.Of(1), sym.Of(1)
	for _, d := range freeX {
		productShape, rows = append(productShape, s.shape(x)[d]), rows.Mul(s.shape(x)[d])
	}
	for _, d := range freeY {
		productShape, columns = append(productShape, s.shape(y)[d]), columns.Mul(s.shape(y)[d])
	}
	for _, d := range pairs[0] {
		terms = terms.Mul(s.shape(x)[d])
	}
	x = s.reshape(s.Apply(view.Permute, graph.Attrs{"dims": append(freeX, pairs[0]...)}, x), rows, terms)
	y = s.reshape(s.Apply(view.Permute, graph.Attrs{"dims": append(pairs[1], freeY...)}, y), terms, columns)
	return s.reshape(s.Apply(product.Mm, nil, x, y), productShape...)
}

// remaining returns the dimensions that are not in the list.
func remaining(rank int, dims []int) []int {
	var out []int
	for d := range rank {
		if !slices.Contains(dims, d) {
			out = append(out, d)
		}
	}
	return out
}

// Tensors joined to one.
var (
	BlockDiag = defineOne(graph.Semantics{
		Name: "block_diag", Doc: "Creates a matrix with the matrices along its diagonal and 0 elsewhere; vectors " +
			"are rows.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(3), kit.F32())},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		d := s.commonDType(in...)
		total := sym.Of(0)
		rows := make([]graph.Arg, len(in))
		for i, x := range in {
			s.Reject(len(s.shape(x)) > 2, "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input %d "+
				"has %d "+
				"dimensions", i, len(s.shape(x)))
			rows[i] = s.Apply(view.Atleast2d, nil, s.to(x, d))
			total = total.Add(s.shape(rows[i])[1])
		}
		before := sym.Of(0)
		for i, x := range rows {
			columns := s.shape(x)[1]
			rows[i] = s.pad(x, before, total.Sub(before).Sub(columns))
			before = before.Add(columns)
		}
		return s.Apply(view.Cat, nil, rows...)
	})
	CartesianProd = defineOne(graph.Semantics{
		Name: "cartesian_prod", Doc: "Returns all combinations of elements of vectors, one per row.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2), kit.F32(3))},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		for _, x := range in {
			s.Reject(len(s.shape(x)) != 1, "Expect a 1D vector, but got shape %s", tensor.Sizes(s.shape(x)))
		}
		if len(in) == 1 {
			return s.Apply(view.Alias, nil, in[0])
		}
		for _, x := range in {
			s.Reject(x.Type().DType != in[0].Type().DType, "meshgrid expects all tensors to have the same dtype")
		}
		var grid []sym.Int
		for _, x := range in {
			grid = append(grid, s.shape(x)...)
		}
		columns := make([]graph.Arg, len(in))
		for i, x := range in {
			x = s.reshape(x, append(sym.Ints(-1), padOnes(nil, len(in)-1-i)...)...)
			columns[i] = s.reshape(s.Apply(view.Expand, graph.Attrs{"size": grid}, x), sym.Of(-1))
		}
		return s.Apply(view.Stack, graph.Attrs{"dim": 1}, columns...)
	})
	ColumnStack = defineOne(graph.Semantics{
		Name: "column_stack", Doc: "Concatenates tensors along the second dimension; vectors are columns.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(2))},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		columns := slices.Clone(in)
		for i, x := range in {
			if x.Type().Rank() <= 1 {
				columns[i] = s.reshape(x, x.Type().Numel(), sym.Of(1))
			}
		}
		return s.Apply(view.Hstack, nil, columns...)
	})
	Dstack = defineOne(graph.Semantics{
		Name: "dstack", Doc: "Concatenates tensors along the third dimension; matrices get a third dimension of size 1.",
		Params:   variadic,
		Examples: []graph.Example{kit.Example(nil, kit.F32(2, 1), kit.F32(2, 1, 2))},
	}, func(s steps, _ *kit.EmptyAttrs, in []graph.Arg) graph.Arg {
		planes := slices.Clone(in)
		for i, x := range in {
			planes[i] = s.Apply(view.Atleast3d, nil, x)
		}
		return s.Apply(view.Cat, graph.Attrs{"dim": 2}, planes...)
	})
)
