package index

import (
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// selectKernel puts the index's dimensions at the place of dimension dim of operand 0.
func selectKernel(c *graph.Call, index kit.Buffer, dim int) *graph.Kernel {
	out, m, ix := c.Out[0], c.Meta(0), index.Meta
	near := sideOf(0, out)
	far, idx := walkSide{Buffer: kit.InBuffer(c, 0)}, walkSide{Buffer: index}
	for d := range m.Rank() {
		if d == dim {
			far.steps = append(far.steps, make([]int, ix.Rank())...)
			idx.steps = append(idx.steps, kit.ByteStrides(ix)...)
			if ix.Rank() == 0 && out.Rank() == m.Rank() {
				far.steps, idx.steps = append(far.steps, 0), append(idx.steps, 0)
			}
			continue
		}
		far.steps, idx.steps = append(far.steps, kit.StepAt(m, d)), append(idx.steps, 0)
	}
	if m.Rank() == 0 {
		far.steps, idx.steps = nil, nil
	}
	x := &indexed{shape: out.Shape, sides: []walkSide{near, far, idx}, looks: []lookup{lookAlong(m, ix, dim)}}
	return x.kernel(kit.ReadOps(out.DType))
}

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
			return nil, fmt.Errorf("shape mismatch: indexing tensors could not be broadcast together with shapes %s, %s",
				tensor.Sizes(p.given), tensor.Sizes(t.Shape))
		}
		p.given = b
		p.dims, p.indices = append(p.dims, i-1), append(p.indices, t)
	}
	if len(p.dims) == 0 {
		return nil, errors.New("at least one index must be provided")
	}
	for _, d := range p.dims {
		if kit.Is(p.self.Shape[d], 0) && !kit.Is(tensor.Product(p.given), 0) {
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
			if kit.Is(p.given[d], 1) {
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
	self := kit.OfNumbers(p.self)
	x := &indexed{shape: c.Out[0].Shape, sides: []walkSide{sideOf(0, c.Out[0]), sideOf(1, kit.OfNumbers(p.far))}}
	for k, ix := range p.indices {
		d := p.dims[k]
		x.sides = append(x.sides, sideOf(2+d, kit.OfNumbers(ix)))
		x.looks = append(x.looks, lookup{side: 2 + k, wide: ix.DType == tensor.Int64, dim: d, size: self.Shape[d],
			step: kit.StepAt(self, d)})
	}
	return x.kernel(kit.ReadOps(c.Out[0].DType))
}

// layout lays the result out by the permutation rule.
func (p *indexing) layout() (tensor.Type, error) {
	if t, err := kit.FreshType(p.self.DType, p.shape); err != nil {
		return t, err
	}
	cfg := rule.New().CheckAllSameDType(false).Output(rule.UndefinedOf(p.self.DType)).Input(rule.OfType(p.far))
	for _, t := range p.rules {
		cfg = cfg.Input(rule.OfType(t))
	}
	return kit.LaidOut(cfg)
}

// copySelf is the phase that copies operand 0 to the output, from which these ops start.
func copySelf(c *graph.Call) *graph.Kernel {
	k := copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Src: kit.InBuffer(c, 0)})
	k.Worker = max(k.Worker, placeBlock*8)
	return k
}
