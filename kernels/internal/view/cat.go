package view

import (
	"slices"
	"sync"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/index"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

type catAttrs struct {
	Dim int `attr:"dim" default:"0" doc:"dimension along which to concatenate"`
}

// Cat, Concat and Concatenate are torch.cat under its three names.
var (
	Cat         = concatOp("cat")
	Concat      = concatOp("concat")
	Concatenate = concatOp("concatenate")
)

// concatOp defines torch.cat under the given name.
func concatOp(name string) *graph.Op {
	return defineJoin(graph.SchemaOf[*catAttrs](), name,
		"Concatenates tensors along a dimension. Their other sizes must be equal. Dtypes are promoted. The result has "+
			"the memory format that all tensors suggest, else it is row-major.",
		joinOp{dim: func(c *graph.Call, _ tensor.Type) int { return kit.Attrs[*catAttrs](c).Dim }},
		[]graph.Example{{In: []tensor.Meta{kit.NHWC(2, 3, 4, 5), kit.NHWC(2, 1, 4, 5)}, Attrs: graph.Attrs{"dim": 1}}})
}

// Hstack and Vstack are torch.hstack and torch.vstack.
var (
	Hstack = defineJoin(kit.NoAttrs, "hstack",
		"Concatenates tensors along the second dimension, or vectors and numbers along their only dimension.",
		joinOp{rank: 1, dim: func(_ *graph.Call, t tensor.Type) int { return min(t.Rank(), 2) - 1 }},
		[]graph.Example{{In: []tensor.Meta{kit.F32(2, 3), kit.F32(2, 4)}}})
	Vstack = defineJoin(kit.NoAttrs, "vstack",
		"Concatenates tensors along the first dimension; vectors are rows.",
		joinOp{rank: 2, dim: func(*graph.Call, tensor.Type) int { return 0 }},
		[]graph.Example{{In: []tensor.Meta{kit.F32(3), kit.F32(2, 3)}}})
)

// joinOp describes an op that concatenates its operands along a dimension. In this file, the types of the operands are
// called parts, and the type of the result is called whole. For example, the parts [2, 3] and [2, 4] along dimension 1
// give the whole [2, 7].
type joinOp struct {
	rank int // operands of a lower rank are first viewed as values of this rank; 0 if the op has no such view
	// dim returns the dimension of concatenation. A negative dimension counts from the end. t is the type of the first
	// operand after the view.
	dim func(c *graph.Call, t tensor.Type) int
}

// defineJoin defines an op that concatenates its operands.
func defineJoin(attrs *graph.Schema, name, doc string, j joinOp, examples []graph.Example) *graph.Op {
	return kit.DefineWith(attrs, graph.Op{
		Semantics: graph.Semantics{
			Name: name, Doc: doc, Params: []graph.Param{kit.Tensors},
			Infer: j.infer, Ref: j.ref, Examples: examples,
		},
		// ImagePreserving: the result is an image if the operands are images.
		Facts: graph.Facts{WritesAnyDenseLayout: true, ImageRole: graph.ImagePreserving, SelectsElements: true,
			ConcatDim: j.concatDim},
		Lowerings: graph.Lowerings{Impls: []graph.Impl{copies.JoinImpl(j.compile, j.forms)}, Extend: j.extend},
	})
}

// infer infers the type of the result.
func (j joinOp) infer(c *graph.Call) ([]graph.Result, error) {
	result, _, err := j.withParts(c, nil) // nil: the types of the operands are not needed
	return c.NewResult(result), err
}

// partLists pools lists of operand types, because allocating the lists would take much time. In a DenseNet, for
// example, the last concatenation of a block has dozens of operands and is inferred dozens of times.
var partLists = sync.Pool{New: func() any { return new([]tensor.Type) }}

// withParts returns the type of the result and the dimension of concatenation. If visit is not nil, it is called with
// the types of the operands. It must not keep this list, which is from the pool.
func (j joinOp) withParts(c *graph.Call, visit func(parts []tensor.Type)) (whole tensor.Type, dim int, err error) {
	list := partLists.Get().(*[]tensor.Type)
	parts, whole, dim, err := j.partTypes((*list)[:0], c)
	if err != nil {
		return whole, 0, err
	}
	if visit != nil {
		visit(parts)
	}
	clear(parts) // the pool must not keep symbols alive
	*list = parts
	partLists.Put(list)
	return whole, dim, nil
}

// partTypes appends the types of the operands, viewed with at least j.rank dimensions, to a list. It returns the list,
// the type of the result and the dimension of concatenation as a non-negative number.
func (j joinOp) partTypes(list []tensor.Type, c *graph.Call) (parts []tensor.Type, whole tensor.Type, dim int,
	err error) {
	parts = kit.OperandTypes(list, c)
	for i := range parts {
		if parts[i], err = withRankAtLeast(parts[i], j.rank); err != nil {
			return nil, whole, 0, err
		}
	}
	whole, dim, err = concatType(parts, j.dim(c, parts[0]))
	return parts, whole, dim, err
}

// concatDim returns the dimension of concatenation. It returns false if the view gives an operand another rank, or if
// inference fails.
func (j joinOp) concatDim(c *graph.Call) (int, bool) {
	haveSameRanks := true
	_, dim, err := j.withParts(c, func(parts []tensor.Type) {
		for i := range parts {
			haveSameRanks = haveSameRanks && parts[i].Rank() == c.Type(i).Rank()
		}
	})
	if err != nil || !haveSameRanks {
		return 0, false
	}
	return dim, true
}

// extend is [graph.Op.Extend]: the second of two operands extends the first one.
func (j joinOp) extend(n *graph.Node) (graph.Extension, bool) {
	dim, ok := j.concatDim(n.Call())
	out := n.Out[0].Meta
	differs := func(a graph.Arg) bool { return a.Meta().DType != out.DType || a.Meta().Rank() != out.Rank() }
	if !ok || len(n.In) != 2 || slices.ContainsFunc(n.In, differs) {
		return graph.Extension{}, false
	}
	return index.AppendOf(dim, nil, n.In[0], n.In[1]), true
}

// partCopy is a copy of an operand to its part of the output.
type partCopy struct {
	operand  int         // index of the operand
	src, dst tensor.Meta // the operand, viewed with at least joinOp.rank dimensions, and the part of the output
}

// partCopies returns the copies that the kernel makes. Operands that are already stored in their parts of the output
// need no copy. Operands of shape [0], which cat accepts together with values of any shape (isLegacyEmpty), need no
// copy either.
func (j joinOp) partCopies(call *graph.Call) (list []partCopy, err error) {
	parts, whole, dim, err := j.partTypes(nil, call)
	if err != nil || kit.IsEmpty(whole) {
		return nil, err
	}
	offset := 0
	for i, part := range parts {
		if isLegacyEmpty(&part) {
			continue
		}
		src := kit.KnownMeta(part)
		dst, err := call.Out[0].Narrow(dim, offset, src.Shape[dim])
		if err != nil {
			return nil, err
		}
		offset += src.Shape[dim]
		if !call.IsInPlace(i) { // otherwise another node has written the operand into the output
			list = append(list, partCopy{operand: i, src: src, dst: dst})
		}
	}
	return list, nil
}

// compile returns a kernel that copies operands to their parts of the output.
func (j joinOp) compile(call *graph.Call) (*graph.Kernel, error) {
	list, err := j.partCopies(call)
	if err != nil || len(list) == 0 {
		return &graph.Kernel{}, err
	}
	var jobs []copies.Job
	for _, part := range list {
		jobs = append(jobs, copies.Job{Dst: kit.OutBuffer(call, 0).View(part.dst),
			Src: kit.InBuffer(call, part.operand).View(part.src)})
	}
	return copies.Kernel(jobs...), nil
}

// forms returns a form for each copy of the kernel. Kernels of devices are generated from forms: see
// [graph.Impl.Forms].
func (j joinOp) forms(call *graph.Call) (list []graph.Form, err error) {
	partCopies, err := j.partCopies(call)
	for _, part := range partCopies {
		// Index 0 is the result, and index 1+i is operand i.
		form, err := copies.Form(graph.FormOperand{Index: 0, Meta: part.dst, Offset: part.dst.Offset - call.Out[0].Offset},
			graph.FormOperand{Index: 1 + part.operand, Meta: part.src})
		if err != nil {
			return nil, err
		}
		list = append(list, form)
	}
	return list, err
}

// ref is the reference. It copies the operands index by index.
func (j joinOp) ref(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	parts, whole, dim, err := j.partTypes(nil, c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(whole.DType, kit.KnownSizes(whole.Shape)...)
	offset := 0
	for i, part := range parts {
		if isLegacyEmpty(&part) {
			continue
		}
		partMeta := kit.KnownMeta(part)
		source := in[i].CopyTo(tensor.New(partMeta.DType, in[i].Shape...))
		if source, err = source.View(tensor.New(source.DType, partMeta.Shape...)); err != nil {
			return nil, err
		}
		kit.EachIndex(partMeta.Shape, func(indices []int) {
			outIndex := slices.Clone(indices)
			outIndex[dim] += offset
			out.Set(source.At(indices...), outIndex...)
		})
		offset += partMeta.Shape[dim]
	}
	return []*tensor.Tensor{out}, nil
}
