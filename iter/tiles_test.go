package iter_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// placed returns a tensor of small whole numbers somewhere in its storage: its dimensions are in any order, with gaps
// between, and, where it may be, some are broadcast.
func placed(r *rand.Rand, d tensor.DType, broadcast bool, shape []int) *tensor.Tensor {
	m := tensor.Meta{DType: d, Shape: shape, Strides: make([]int, len(shape)), Offset: r.IntN(20)}
	step := 1 + r.IntN(2)*r.IntN(2)
	for _, k := range r.Perm(len(shape)) {
		if m.Strides[k] = step; broadcast && r.IntN(5) == 0 {
			m.Strides[k] = 0
			continue
		}
		step *= shape[k] + r.IntN(3)*r.IntN(2)
	}
	all := tensor.Zeros(d, m.Extent()+7)
	for i := range all.Numel() {
		all.SetFlat(i, tensor.IntScalar(int64(r.IntN(5))))
	}
	return tensor.Must(all.View(m))
}

// tiled is a sum of operands of any dtypes and layouts, with one or two results.
type tiled struct {
	outs, ins []*tensor.Tensor
	code      *expr.Code
	inPlace   bool // the first result replaces the first operand
}

func drawTiled(t *testing.T, r *rand.Rand) *tiled {
	sizes := []int{1, 2, 3, 5, 16, 17, 33, 64, 65, 100, 130, 257, 300, 1030}
	shape := make([]int, 1+r.IntN(4))
	for n := 0; n == 0 || n > 150_000; {
		n = 1
		for k := range shape {
			shape[k] = sizes[r.IntN(len(sizes))]
			n *= shape[k]
		}
	}
	dtypes := []tensor.DType{tensor.Uint8, tensor.Int16, tensor.Float32, tensor.Float32, tensor.Float64,
		tensor.Complex128}
	c, held := &tiled{inPlace: r.IntN(4) == 0}, make([]tensor.DType, 1+r.IntN(4))
	for k := range held {
		held[k] = dtypes[r.IntN(len(dtypes))]
		c.ins = append(c.ins, placed(r, held[k], k > 0 || !c.inPlace, shape))
	}
	b := expr.NewBuilder(held...)
	sum := b.Const(tensor.Float32, 1)
	for k, d := range held {
		sum = b.Emit(expr.Add, sum, b.Convert(tensor.Float32, b.Load(k)))
		if d.IsComplex() {
			sum = b.Emit(expr.Add, sum, b.Convert(tensor.Float32, b.LoadImag(k)))
		}
	}
	var out []expr.Output
	for k := range 1 + r.IntN(2) {
		d, v := dtypes[r.IntN(len(dtypes))], sum
		o := placed(r, d, false, shape)
		if k == 0 && c.inPlace {
			d, o = held[0], c.ins[0]
		}
		if k == 1 {
			v = b.Emit(expr.Sub, sum, b.Convert(tensor.Float32, b.Load(0)))
		}
		c.outs = append(c.outs, o)
		part := b.Convert(d.ToReal(), v)
		out = append(out, expr.Output{DType: d, Re: part, Im: expr.None})
		if d.IsComplex() {
			out[k].Im = part
		}
	}
	var err error
	c.code, err = b.Build(out...)
	require.NoError(t, err)
	return c
}

// prepared is the kernel for tensors of some layouts.
func (c *tiled) prepared(t *testing.T, outs, ins []*tensor.Tensor) (iter.Prepared, *iter.Iterator) {
	cfg := iter.New().CheckAllSameDType(false)
	for _, o := range outs {
		cfg = cfg.Output(iter.OperandOfMeta(o.Meta))
	}
	for _, i := range ins {
		cfg = cfg.Input(iter.OperandOfMeta(i.Meta))
	}
	it, err := cfg.Build()
	require.NoError(t, err)
	p, err := it.Prepare(iter.Expr(c.code))
	require.NoError(t, err)
	return p, it
}

// want is what the storages of the results hold afterwards, computed over row-major operands, of which none is staged.
func (c *tiled) want(t *testing.T) [][]byte {
	var outs, ins []*tensor.Tensor
	var ptrs []unsafe.Pointer
	for _, o := range c.outs {
		outs = append(outs, tensor.Zeros(o.DType, o.Shape...))
		ptrs = append(ptrs, outs[len(outs)-1].Pointer())
	}
	for _, i := range c.ins {
		ins = append(ins, i.CopyTo(tensor.New(i.DType, i.Shape...)))
		ptrs = append(ptrs, ins[len(ins)-1].Pointer())
	}
	p, _ := c.prepared(t, outs, ins)
	require.NoError(t, p.RunAll(nil, ptrs))
	var bytes [][]byte
	for k, o := range c.outs {
		whole := another(o)
		tensor.CopyElements(whole, outs[k])
		bytes = append(bytes, whole.Storage().Bytes())
	}
	return bytes
}

// another returns a tensor over a copy of the storage.
func another(o *tensor.Tensor) *tensor.Tensor {
	s := tensor.NewStorage(o.Storage().Len())
	copy(s.Bytes(), o.Storage().Bytes())
	return tensor.Must(tensor.FromStorage(o.Meta, s))
}

// run computes the kernel over copies of the results in some way, and returns what their storages hold.
func (c *tiled) run(t *testing.T, way func(ptrs []unsafe.Pointer) error) [][]byte {
	var ptrs []unsafe.Pointer
	var bytes [][]byte
	for _, o := range c.outs {
		o = another(o)
		ptrs, bytes = append(ptrs, o.Pointer()), append(bytes, o.Storage().Bytes())
	}
	for k, i := range c.ins {
		if k == 0 && c.inPlace {
			ptrs = append(ptrs, ptrs[0])
			continue
		}
		ptrs = append(ptrs, i.Pointer())
	}
	require.NoError(t, way(ptrs))
	return bytes
}

// inHalves computes two parts of the iteration by themselves.
func (c *tiled) inHalves(t *testing.T, r *rand.Rand, it *iter.Iterator, ptrs []unsafe.Pointer) error {
	shape := it.WalkShape()
	if len(shape) == 0 {
		p, err := it.Prepare(iter.Expr(c.code))
		require.NoError(t, err)
		return p.RunAll(nil, ptrs)
	}
	dim := r.IntN(len(shape))
	cut := r.IntN(shape[dim])
	for _, h := range [][2]int{{0, cut}, {cut, shape[dim] - cut}} {
		if h[1] == 0 {
			continue
		}
		half, err := it.Narrow(dim, h[0], h[1])
		require.NoError(t, err)
		p, err := half.Prepare(iter.Expr(c.code))
		require.NoError(t, err)
		for i := range p.Chunks(0) {
			if err := p.RunChunk(nil, ptrs, i, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestTiles computes sums over drawn layouts in all ways there are: whole, by tasks in any order, by ranges that begin
// and end anywhere, by workers. Nothing but the results may be written.
func TestTiles(t *testing.T) {
	testsize.Long(t)
	compiles := loops.CodeAvailable
	defer func() { loops.CodeAvailable = compiles }()
	r := rand.New(rand.NewPCG(3, 4))
	transposed, cases, least := 0, testsize.Of(80, 240), testsize.Of(30, 100)
	if testing.Short() { // the detector is for what runs at the same time, which is alike
		cases, least = 24, 5 // few are drawn
	}
	for k := range cases {
		loops.CodeAvailable = compiles
		if k%4 == 3 {
			loops.CodeAvailable = func() bool { return false }
		}
		c := drawTiled(t, r)
		want := c.want(t)
		p, it := c.prepared(t, c.outs, c.ins)
		if inner, _, _ := iter.Tiles(p); inner != nil {
			transposed++
		}
		var cursor iter.Cursor
		require.Equal(t, want, c.run(t, func(ptrs []unsafe.Pointer) error { return p.RunAll(&cursor, ptrs) }), "%v", it)
		for _, grain := range []int{0, 1 + r.IntN(5000)} {
			require.Equal(t, want, c.run(t, func(ptrs []unsafe.Pointer) error {
				for _, i := range r.Perm(p.Chunks(grain)) {
					if err := p.RunChunk(&cursor, ptrs, i, grain); err != nil {
						return err
					}
				}
				return nil
			}), "tasks of %d of %v", grain, it)
		}
		require.Equal(t, want, c.run(t, func(ptrs []unsafe.Pointer) error {
			for at := 0; at < it.Numel(); {
				end := min(it.Numel(), at+1+r.IntN(max(1, it.Numel()/3)))
				if err := p.RunRange(&cursor, ptrs, iter.Range{Begin: at, End: end}); err != nil {
					return err
				}
				at = end
			}
			return nil
		}), "ranges of %v", it)
		require.Equal(t, want, c.run(t, func(ptrs []unsafe.Pointer) error {
			return p.Parallel(context.Background(), ptrs, 1000, 3)
		}), "workers for %v", it)
		require.Equal(t, want, c.run(t, func(ptrs []unsafe.Pointer) error { return c.inHalves(t, r, it, ptrs) }),
			"halves of %v", it)
	}
	assert.Greater(t, transposed, least)
}
