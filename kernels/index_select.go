package kernels

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// IndexSelect is torch.index_select.
var IndexSelect = define[gatherAttrs](graph.Op{
	AnyOrder: true,
	Name:     "index_select",
	Doc:      "Takes slices of self along a dimension, one for each element of a one-dimensional index. A negative index counts from the end.",
	Params:   []graph.Param{self, indexParam},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		t, ix := c.Type(0), c.Type(1)
		dim, err := tensor.WrapDim(attrs[gatherAttrs](c).Dim, t.Rank())
		if err != nil {
			return nil, err
		}
		if ix.Rank() > 1 {
			return nil, errors.New("index_select(): Index is supposed to be a vector")
		}
		if err := indexDType("index_select", ix.DType); err != nil {
			return nil, err
		}
		if t.Rank() == 0 {
			if n := ix.Numel(); !is(n, 1) {
				return nil, fmt.Errorf("index_select(): Index to scalar can have only 1 value, got %v value(s)", n)
			}
			return graph.New1(tensor.NewType(t.DType)), nil
		}
		out, err := freshType(t.DType, with(t.Shape, dim, ix.Numel()))
		return graph.New1(out), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		m := c.Meta(0)
		dim, err := tensor.WrapDim(attrs[gatherAttrs](c).Dim, m.Rank())
		if err != nil {
			return nil, err
		}
		return selectKernel(c, m, c.Meta(1), 1, 2, dim), nil
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		dim, err := tensor.WrapDim(attrs[gatherAttrs](c).Dim, in[0].Rank())
		if err != nil {
			return nil, err
		}
		return selectRef(in[0], in[1], dim)
	},
	Examples: []graph.Example{{In: []tensor.Meta{nhwc(2, 3, 4, 5), i64(3)}, Attrs: graph.Attrs{"dim": 1}},
		{In: []tensor.Meta{f32(3, 4), i64(2)}, Attrs: graph.Attrs{"dim": -1}}},
})

// selectKernel puts the index's dimensions at the place of dimension dim of the value.
func selectKernel(c *graph.Call, m, ix tensor.Meta, at, indexAt, dim int) *graph.Kernel {
	out := c.Out[0]
	near := sideOf(0, out)
	far, idx := walkSide{at: at}, walkSide{at: indexAt}
	for d := range m.Rank() {
		if d == dim {
			far.steps = append(far.steps, make([]int, ix.Rank())...)
			idx.steps = append(idx.steps, byteStrides(ix)...)
			if ix.Rank() == 0 && out.Rank() == m.Rank() {
				far.steps, idx.steps = append(far.steps, 0), append(idx.steps, 0)
			}
			continue
		}
		far.steps, idx.steps = append(far.steps, stepAt(m, d)), append(idx.steps, 0)
	}
	if m.Rank() == 0 {
		far.steps, idx.steps = nil, nil
	}
	x := &indexed{shape: out.Shape, sides: []walkSide{near, far, idx}, looks: []lookup{lookAlong(m, ix, dim)}}
	return x.kernel(readOps(out.DType))
}

func selectRef(t, index *tensor.Tensor, dim int) ([]*tensor.Tensor, error) {
	shape := slices.Clone(t.Shape)
	if t.Rank() > 0 {
		shape[dim] = index.Numel()
	}
	out := tensor.Zeros(t.DType, shape...)
	flat, first := rowMajorAs(index, index.Numel())
	if first != nil {
		return nil, first
	}
	eachIndex(shape, func(at []int) {
		src, k := slices.Clone(at), 0
		if len(at) > 0 {
			k = at[dim]
		}
		i, err := refIndex(flat, sizeAt(t.Meta, dim), dim, k)
		if err != nil {
			first = err
			return
		}
		if len(at) > 0 {
			src[dim] = i
		}
		out.Set(t.At(src...), at...)
	})
	return []*tensor.Tensor{out}, first
}

type embeddingAttrs struct {
	PaddingIdx      int  `attr:"padding_idx" default:"-1" doc:"index whose row gets no gradient; means nothing here"`
	ScaleGradByFreq bool `attr:"scale_grad_by_freq" default:"false" doc:"concerns gradients; means nothing here"`
	Sparse          bool `attr:"sparse" default:"false" doc:"concerns gradients; means nothing here"`
}

// Embedding is aten::embedding.
var Embedding = define[embeddingAttrs](graph.Op{
	AnyOrder: true,
	Name:     "embedding",
	Doc:      "Takes rows of a matrix: indices of shape S and a weight [n, k] give [S, k].",
	Params:   []graph.Param{weight, {Name: "indices", Below: rowsOfSelf}},
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		w, ix := c.Type(0), c.Type(1)
		if w.Rank() != 2 {
			return nil, errors.New("'weight' must be 2-D")
		}
		if ix.DType != tensor.Int64 && ix.DType != tensor.Int32 {
			return nil, fmt.Errorf("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got %s instead (while checking arguments for embedding)", ix.DType.TorchName())
		}
		out, err := freshType(w.DType, with(ix.Shape, ix.Rank(), w.Shape[1]))
		return graph.New1(out), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		return selectKernel(c, c.Meta(0), c.Meta(1), 1, 2, 0), nil
	},
	Ref: func(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := selectRef(in[0], in[1], 0)
		if err != nil {
			return nil, err
		}
		t, err := out[0].View(tensor.New(in[0].DType, append(slices.Clone(in[1].Shape), in[0].Shape[1])...))
		return []*tensor.Tensor{t}, err
	},
	Examples: []graph.Example{{In: []tensor.Meta{f32(4, 6), i64(2, 3)}}},
})

// maxIndices is the number of dimensions that index can index at once.
const maxIndices = 8

func indexParams() []graph.Param {
	p := []graph.Param{self}
	for i := range maxIndices {
		p = append(p, graph.Param{Name: fmt.Sprint("index", i), Optional: true, Below: placesOfDim(i)})
	}
	return p
}

// Index is aten::index.Tensor.
var Index = define[none](graph.Op{
	Name: "index",
	Doc: "Takes elements as self[index0, index1, ...] does: operand i+1 holds indices of dimension i, or is null where all of it stays.\n" +
		"The indices broadcast to one shape, which stands at the place of the indexed dimensions if those are neighbours, else in front. A mask stands for the indices of the elements where it holds, one index for each of its dimensions: the operands after it go on behind those.",
	Params: indexParams(),
	Eager:  indexByMasks,
	Infer: func(c *graph.Call) ([]graph.Result, error) {
		if hasMask(c) {
			return []graph.Result{maskedOutline(c).Result()}, nil
		}
		p, err := newIndexing(c)
		if err != nil {
			return nil, err
		}
		t, err := p.layout()
		return graph.New1(t), err
	},
	Compile: func(c *graph.Call) (*graph.Kernel, error) {
		p, err := newIndexing(c)
		if err != nil {
			return nil, err
		}
		return p.kernel(c), nil
	},
	Ref: indexRef,
	Examples: []graph.Example{{In: []tensor.Meta{f32(3, 4, 2), {}, i64(2, 1), i64(3)}},
		{In: []tensor.Meta{nhwc(2, 3, 4, 5), i64(2), {}, i64(2)}}},
})

// indexing is a call of index: the types of self and the indices in the shape of the
// result, self without steps where indices stand.
type indexing struct {
	self, far tensor.Type
	dims      []int
	indices   []tensor.Type
	rules     []tensor.Type // the indices as the permutation rule sees them
	shape     []sym.Int
	at        int // place of the indices' shape in the result
	given     []sym.Int
}

func newIndexing(c *graph.Call) (*indexing, error) {
	p := &indexing{self: c.Type(0)}
	for i := 1; i < len(c.In); i++ {
		if !c.Has(i) {
			continue
		}
		t := c.Type(i)
		if t.DType != tensor.Int64 && t.DType != tensor.Int32 {
			return nil, errors.New("tensors used as indices must be long, int, byte or bool tensors")
		}
		if p.self.Rank() < i {
			return nil, fmt.Errorf("too many indices for tensor of dimension %d (got %d)", p.self.Rank(), len(c.In)-1)
		}
		b, err := tensor.BroadcastSizes(p.given, t.Shape)
		if err != nil {
			return nil, fmt.Errorf("shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s", tensor.Sizes(p.given), tensor.Sizes(t.Shape))
		}
		p.given = b
		p.dims, p.indices = append(p.dims, i-1), append(p.indices, t)
	}
	if len(p.dims) == 0 {
		return nil, errors.New("at least one index must be provided")
	}
	for _, d := range p.dims {
		if is(p.self.Shape[d], 0) && !is(tensor.Product(p.given), 0) {
			return nil, errors.New("index is out of bounds for dimension with size 0")
		}
	}
	last := p.dims[len(p.dims)-1]
	if last-p.dims[0] == len(p.dims)-1 {
		p.at = p.dims[0]
	}
	return p, p.arrange()
}

// arrange brings all types to the shape of the result.
func (p *indexing) arrange() error {
	p.far = tensor.Type{DType: p.self.DType}
	add := func(shape, strides []sym.Int) {
		p.far.Shape, p.far.Strides = append(p.far.Shape, shape...), append(p.far.Strides, strides...)
	}
	k := 0
	for d := range p.self.Rank() + 1 {
		if k == p.at && len(p.shape) == 0 {
			add(p.given, make([]sym.Int, len(p.given)))
			p.shape = append(p.shape, sym.Of(1))
		}
		if d < p.self.Rank() && !slices.Contains(p.dims, d) {
			add(p.self.Shape[d:d+1], p.self.Strides[d:d+1])
			k++
		}
	}
	p.shape = p.far.Shape
	if p.shape == nil {
		p.shape, p.far.Shape, p.far.Strides = []sym.Int{}, []sym.Int{}, []sym.Int{}
	}
	for i, t := range p.indices {
		e, err := t.Expand(p.given)
		if err != nil {
			return err
		}
		x := tensor.Type{DType: t.DType, Shape: p.shape, Strides: make([]sym.Int, len(p.shape))}
		copy(x.Strides[p.at:], e.Strides)
		p.rules = append(p.rules, p.rule(e))
		for d := range p.given {
			if is(p.given[d], 1) {
				x.Strides[p.at+d] = sym.Int{}
			}
		}
		p.indices[i] = x
	}
	return nil
}

// rule is at::native's reshape_indexer: an index with a size of 1 in the dimensions that
// are not indexed.
func (p *indexing) rule(t tensor.Type) tensor.Type {
	shape := slices.Repeat(sym.Ints(1), len(p.shape))
	copy(shape[p.at:], p.given)
	if v, err := t.View(shape); err == nil {
		return v
	}
	return tensor.NewType(t.DType, shape...)
}

func (p *indexing) kernel(c *graph.Call) *graph.Kernel {
	self := ofNumbers(p.self)
	x := &indexed{shape: c.Out[0].Shape, sides: []walkSide{sideOf(0, c.Out[0]), sideOf(1, ofNumbers(p.far))}}
	for k, ix := range p.indices {
		d := p.dims[k]
		x.sides = append(x.sides, sideOf(2+d, ofNumbers(ix)))
		x.looks = append(x.looks, lookup{side: 2 + k, wide: ix.DType == tensor.Int64, dim: d, size: self.Shape[d], step: stepAt(self, d)})
	}
	return x.kernel(readOps(c.Out[0].DType))
}

// layout lays the result out by the permutation rule.
func (p *indexing) layout() (tensor.Type, error) {
	if t, err := freshType(p.self.DType, p.shape); err != nil {
		return t, err
	}
	cfg := iter.New().CheckAllSameDType(false).Output(iter.UndefinedOf(p.self.DType)).Input(iter.OfType(p.far))
	for _, t := range p.rules {
		cfg = cfg.Input(iter.OfType(t))
	}
	return laidOut(cfg)
}

func indexRef(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	p, err := newIndexing(c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, numbersOf(p.shape)...)
	eachIndex(out.Shape, func(at []int) {
		src := make([]int, in[0].Rank())
		lead := at[p.at : p.at+len(p.given)]
		rest := append(slices.Clone(at[:p.at]), at[p.at+len(p.given):]...)
		for d := range src {
			if !slices.Contains(p.dims, d) {
				src[d], rest = rest[0], rest[1:]
				continue
			}
			t := in[d+1]
			k := slices.Clone(lead[len(lead)-t.Rank():])
			for j, n := range t.Shape {
				if n == 1 {
					k[j] = 0
				}
			}
			i, e := refIndex(t, in[0].Shape[d], d, k...)
			if e != nil {
				err = e
				return
			}
			src[d] = i
		}
		out.Set(in[0].At(src...), at...)
	})
	return []*tensor.Tensor{out}, err
}
