package product

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gemm"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

type attentionAttrs struct {
	Dropout   float64  `attr:"dropout_p" default:"0" doc:"share of the weights that are dropped; only 0 is supported"`
	IsCausal  bool     `attr:"is_causal" default:"false" doc:"query i sees keys 0 to i only"`
	Scale     *float64 `attr:"scale" default:"none" doc:"factor of the scores; none: 1 / sqrt(e)"`
	EnableGQA bool     `attr:"enable_gqa" default:"false" doc:"groups of query heads share a head of keys and values"`
}

// ScaledDotProductAttention is softmax(query @ keyᵀ * scale + mask) @ value.
var ScaledDotProductAttention = kit.Define[attentionAttrs](graph.Op{
	Semantics: graph.Semantics{
		Name: "scaled_dot_product_attention",
		Doc: "Weighs values by how keys match queries: query [..., l, e], key [..., s, e] and value [..., s, v] give " +
			"[..., l, v]. " +
			"attn_mask, broadcast to [..., l, s], is added to the scores, or, of bools, tells what is seen; a query that sees " +
			"nothing gives 0.",
		Params: []graph.Param{{Name: "query"}, {Name: "key"}, {Name: "value"}, {Name: "attn_mask", Optional: true}},
		Infer: func(c *graph.Call) ([]graph.Result, error) {
			a, err := checkAttention(c)
			if err != nil {
				return nil, err
			}
			return c.One(tensor.NewType(c.Type(0).DType, append(a.batch, a.l, a.v)...)), nil
		},
		Ref: attentionReference,
		Examples: []graph.Example{
			{In: []tensor.Meta{tensor.New(tensor.Float32, 2, 3, 4, 5), tensor.New(tensor.Float32, 2, 3, 6, 5),
				tensor.New(tensor.Float32, 2, 3, 6, 4), tensor.New(tensor.Bool, 4, 6)}},
			{In: []tensor.Meta{tensor.New(tensor.Float64, 4, 5, 3), tensor.New(tensor.Float64, 2, 5, 3),
				tensor.New(tensor.Float64, 2, 5, 3)},
				Attrs: graph.Attrs{"is_causal": true, "enable_gqa": true, "scale": 0.3}},
		},
	},
	Facts: graph.Facts{
		AnyOrder: true,
		Flops: func(c *graph.Call) float64 {
			a, err := attentionOf(c)
			if err != nil {
				return 0
			}
			return 2 * float64(tensor.Numel(a.batch)) * float64(a.l) * float64(a.s) * float64(a.e+a.v)
		},
	},
	Lowerings: graph.Lowerings{
		Compile: func(c *graph.Call) (*graph.Kernel, error) {
			if c.Out[0].Numel() == 0 {
				return &graph.Kernel{}, nil
			}
			return compileAttention(c)
		},
	},
})

// attentionShape holds the sizes of a call. Each entry of the batch has l queries and s keys of e elements, and s
// values of v elements.
type attentionShape struct {
	batch      []int
	l, s, e, v int
	scale      float64
	causal     bool
	group      int // number of query heads that use the same head of keys and values
}

// attentionOf returns the sizes of a call whose shapes are known.
func attentionOf(c *graph.Call) (*attentionShape, error) {
	s, err := checkAttention(c)
	if err != nil {
		return nil, err
	}
	at := kit.Attrs[attentionAttrs](c)
	a := &attentionShape{batch: kit.NumbersOf(s.batch), l: kit.NumberOf(s.l), s: kit.NumberOf(s.s), e: kit.NumberOf(s.e),
		v: kit.NumberOf(s.v), causal: at.IsCausal, group: kit.NumberOf(s.group)}
	if a.scale = 1 / math.Sqrt(float64(a.e)); at.Scale != nil {
		a.scale = *at.Scale
	}
	return a, nil
}

// attentionSizes are the sizes of an [attentionShape], which may be unknown.
type attentionSizes struct {
	batch             []sym.Int
	l, s, e, v, group sym.Int
}

func checkAttention(c *graph.Call) (*attentionSizes, error) {
	at, q, k, v := kit.Attrs[attentionAttrs](c), c.Type(0), c.Type(1), c.Type(2)
	for i := 1; i < 3; i++ {
		if m := c.Type(i); m.DType != q.DType {
			return nil, fmt.Errorf("Expected query, key, and value to have the same dtype, but got query.dtype: %s key.dtype: "+
				"%s and value.dtype: %s instead.", kit.CppName(q.DType), kit.CppName(k.DType), kit.CppName(v.DType))
		}
	}
	switch {
	case q.Rank() < 2 || k.Rank() < 2 || v.Rank() < 2:
		return nil, fmt.Errorf("Expected query, key, and value to all be  at least 2 dimensional, but got query.dim(): %d, "+
			"key.dim(): %d and value.dim(): %d instead.", q.Rank(), k.Rank(), v.Rank())
	case !q.DType.IsFloat():
		return nil, kit.NotImplementedBy("softmax_lastdim_kernel_impl", q.DType)
	case at.Dropout != 0:
		return nil, errors.New("scaled_dot_product_attention: dropout_p other than 0 is not supported")
	case at.IsCausal && c.Has(3):
		return nil, errors.New("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
	}
	last := func(t tensor.Type, i int) sym.Int { return t.Shape[t.Rank()-i] }
	a := &attentionSizes{l: last(q, 2), s: last(k, 2), e: last(q, 1), v: last(v, 1), group: sym.Of(1)}
	if last(k, 1).Ne(a.e).Or(last(v, 2).Ne(a.s)).Holds() {
		return nil, fmt.Errorf("mat1 and mat2 shapes cannot be multiplied (%vx%v and %vx%v)", a.l, a.e, last(k, 1), a.s)
	}
	lead := func(t tensor.Type) []sym.Int { return slices.Clone(t.Shape[:t.Rank()-2]) }
	kb, vb := lead(k), lead(v)
	if at.EnableGQA {
		n := q.Rank() - 3
		if n < 0 || len(kb) != n+1 || len(vb) != n+1 || kit.Is(kb[n], 0) || !kit.Is(q.Shape[n].Mod(kb[n]), 0) ||
			vb[n].Ne(kb[n]).Holds() {
			return nil, errors.New("Number of heads in key and value must divide the number of heads in query")
		}
		a.group = q.Shape[n].Div(kb[n])
		kb[n], vb[n] = q.Shape[n], q.Shape[n]
	}
	var err error
	if a.batch, err = tensor.BroadcastSizes(lead(q), kb); err == nil {
		a.batch, err = tensor.BroadcastSizes(a.batch, vb)
	}
	if err != nil || !c.Has(3) {
		return a, err
	}
	m := c.Type(3)
	if m.DType != tensor.Bool && m.DType != q.DType {
		return nil, fmt.Errorf("Expected attn_mask dtype to be bool or to match query dtype, but got attn_mask.dtype: %s "+
			"and  query.dtype: %s instead.", kit.CppName(m.DType), kit.CppName(q.DType))
	}
	_, err = m.Expand(append(slices.Clone(a.batch), a.l, a.s))
	return a, err
}

// entries returns the offset of the matrix of every entry, in elements, and the strides of rows and columns. Along
// dimension -3, `group` adjacent entries use the same matrix.
func (a *attentionShape) entries(m tensor.Meta, group int) (offsets []int, row, col int) {
	lead := m.Rank() - 2
	kit.EachIndex(a.batch, func(index []int) {
		at := 0
		for d := range lead {
			i := index[len(index)-lead+d]
			if d == lead-1 {
				i /= group
			}
			if m.Shape[d] > 1 {
				at += i * m.Strides[d]
			}
		}
		offsets = append(offsets, at)
	})
	row, col = m.Strides[lead], m.Strides[lead+1]
	return offsets, row, col
}

// attentionRows is the number of queries whose scores are computed together.
const attentionRows = 64

// attention is the state of a compiled call, in the dtype of its loops.
type attention struct {
	*attentionShape
	d              tensor.DType
	size           int // bytes of an element
	rows           int
	at             [5][]int // offsets of the entries of output, query, key, value and mask
	step           [5][2]int
	scores, values [2]*gemm.Plan // products of a whole block, and of the last block of an entry
	work, shared   int           // bytes of a product's scratch memory and of its shared panels
	hasMask, bits  bool
	args           graph.PerWorker[gemm.Args]
}

func compileAttention(c *graph.Call) (*graph.Kernel, error) {
	s, err := attentionOf(c)
	if err != nil {
		return nil, err
	}
	d := c.Out[0].DType.OpMath()
	x := copies.NewCompound(c)
	a := &attention{attentionShape: s, d: d, size: d.Size(), rows: min(attentionRows, s.l), hasMask: c.Has(3)}
	buffers := []kit.Buffer{x.Laid(0, d)}
	for i := range 4 {
		v := x.In(i)
		if v.Meta.DType != d && v.Meta.DType != tensor.Bool {
			v = x.Dense(v, d)
		}
		buffers = append(buffers, v)
	}
	a.bits = buffers[4].Meta.DType == tensor.Bool
	for i, v := range buffers {
		if !v.Given() {
			continue
		}
		m, group := v.Meta, 1
		if i == 4 {
			if m, err = broadcastMeta(m, append(slices.Clone(s.batch), s.l, s.s)); err != nil {
				return nil, err
			}
		}
		if i == 2 || i == 3 {
			group = s.group
		}
		var row, col int
		a.at[i], row, col = s.entries(m, group)
		a.step[i] = [2]int{row, col}
	}
	if err := a.plan(); err != nil {
		return nil, err
	}
	blocks := kit.DivUp(s.l, a.rows)
	x.Run(0, kit.AlignUp(a.rows*s.s*a.size)+a.work+a.shared, buffers, graph.Phase{
		Chunks: len(a.at[0]) * blocks,
		Run: func(m *graph.Mem, chunk int) error {
			a.block(m, chunk/blocks, chunk%blocks*a.rows)
			return nil
		}})
	return x.Kernel()
}

// broadcastMeta expands m. Repeated dimensions have stride 0.
func broadcastMeta(m tensor.Meta, shape []int) (tensor.Meta, error) {
	e, err := m.Expand(shape)
	if err != nil {
		return e, err
	}
	e.Strides = slices.Clone(e.Strides)
	for d := range e.Strides {
		if from := d - (e.Rank() - m.Rank()); from < 0 || m.Shape[from] == 1 {
			e.Strides[d] = 0
		}
	}
	return e, nil
}

func (a *attention) plan() error {
	for i, m := range []int{a.rows, a.l % a.rows} {
		if m == 0 {
			continue
		}
		var err error
		if a.scores[i], err = gemm.NewPlan(gemm.Spec{DType: a.d, M: m, N: a.s, K: a.e,
			A:          gemm.Operand{RowStride: a.step[1][0], ColStride: a.step[1][1]},
			B:          gemm.Operand{RowStride: a.step[2][1], ColStride: a.step[2][0]},
			CRowStride: a.s, CColStride: 1}); err != nil {
			return err
		}
		if a.values[i], err = gemm.NewPlan(gemm.Spec{DType: a.d, M: m, N: a.v, K: a.s,
			A: gemm.Operand{RowStride: a.s, ColStride: 1}, B: gemm.Operand{RowStride: a.step[3][0], ColStride: a.step[3][1]},
			CRowStride: a.step[0][0], CColStride: a.step[0][1]}); err != nil {
			return err
		}
		for _, p := range []*gemm.Plan{a.scores[i], a.values[i]} {
			a.work = max(a.work, kit.AlignUp(p.WorkerBytes()))
			a.shared = max(a.shared, kit.AlignUp(p.SharedBytes()))
		}
	}
	return nil
}

// block computes the results of the block of queries that starts at `row`.
func (a *attention) block(m *graph.Mem, entry, row int) {
	n, which := min(a.rows, a.l-row), 0
	if n < a.rows {
		which = 1
	}
	room := kit.AlignUp(a.rows * a.s * a.size)
	work := m.Worker[room:][:a.work]
	args := a.args.Of(m)
	place := func(i int) unsafe.Pointer {
		if m.Ptrs[i] == nil {
			return nil
		}
		return unsafe.Add(m.Ptrs[i], a.at[i][entry]*a.size)
	}
	*args = gemm.Args{Shared: m.Worker[room+a.work:][:a.shared], B: place(2),
		C: unsafe.Pointer(unsafe.SliceData(m.Worker))}
	if q := place(1); q != nil {
		args.A = unsafe.Add(q, row*a.step[1][0]*a.size)
	}
	a.scores[which].RunAll(args, work)
	if a.d == tensor.Float32 {
		softmaxRows(a, m, entry, row, n, kit.ExpShift32)
	} else {
		softmaxRows(a, m, entry, row, n, kit.ExpShift64)
	}
	args.A, args.B, args.C = args.C, place(3), unsafe.Add(place(0), row*a.step[0][0]*a.size)
	a.values[which].RunAll(args, work)
	*args = gemm.Args{}
}

// softmaxRows converts the scores of the n queries from `row` on to weights, in place.
func softmaxRows[T float32 | float64](a *attention, m *graph.Mem, entry, row, n int,
	exp func(y, x []T, m T) float64) {
	scores := kit.SliceOf[T](m.Worker, 0, n*a.s)
	for i := range n {
		softmaxRow(a, m, entry, row+i, scores[i*a.s:][:a.s], exp)
	}
}

func softmaxRow[T float32 | float64](a *attention, m *graph.Mem, entry, row int, x []T,
	exp func(y, x []T, m T) float64) {
	seen := len(x)
	if a.causal {
		seen = min(seen, row+1)
		clear(x[seen:])
	}
	least, scale := T(math.Inf(-1)), T(a.scale)
	most := least
	mask, step := unsafe.Pointer(nil), a.step[4][1]
	if a.hasMask && m.Ptrs[4] != nil {
		mask = m.Ptrs[4]
	}
	switch {
	case mask == nil:
		for i, v := range x[:seen] {
			x[i] = v * scale
		}
	case a.bits:
		visible := unsafe.Add(mask, a.at[4][entry]+row*a.step[4][0])
		for i, v := range x {
			if x[i] = v * scale; !*(*bool)(unsafe.Add(visible, i*step)) {
				x[i] = least
			}
		}
	default:
		plus := kit.Elem[T](mask, a.at[4][entry]+row*a.step[4][0])
		for i, v := range x {
			x[i] = v*scale + *(*T)(kit.Elem[T](plus, i*step))
		}
	}
	x = x[:seen]
	for _, v := range x {
		if v > most || v != v {
			most = v
		}
	}
	if most == least {
		clear(x)
		return
	}
	if most != most {
		for i := range x {
			x[i] = most
		}
		return
	}
	by := T(1 / exp(x, x, most))
	for i := range x {
		x[i] *= by
	}
}

func attentionReference(c *graph.Call, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	a, err := attentionOf(c)
	if err != nil {
		return nil, err
	}
	out := tensor.Zeros(in[0].DType, append(slices.Clone(a.batch), a.l, a.v)...)
	read := func(t *tensor.Tensor, batch []int, i, j, group int) float64 {
		at := append(slices.Clone(batch), i, j)[len(batch)+2-t.Rank():]
		for d := range t.Rank() {
			if d == t.Rank()-3 {
				at[d] /= group
			}
			if t.Shape[d] == 1 {
				at[d] = 0
			}
		}
		return t.At(at...).Float()
	}
	kit.EachIndex(append(slices.Clone(a.batch), a.l), func(index []int) {
		batch, row := index[:len(index)-1], index[len(index)-1]
		weights, most := make([]float64, a.s), math.Inf(-1)
		for k := range weights {
			for e := range a.e {
				weights[k] += read(in[0], batch, row, e, 1) * read(in[1], batch, k, e, a.group)
			}
			weights[k] *= a.scale
			switch {
			case len(in) > 3 && in[3] != nil && in[3].DType == tensor.Bool:
				if read(in[3], batch, row, k, 1) == 0 {
					weights[k] = math.Inf(-1)
				}
			case len(in) > 3 && in[3] != nil:
				weights[k] += read(in[3], batch, row, k, 1)
			case a.causal && k > row:
				weights[k] = math.Inf(-1)
			}
			most = max(most, weights[k])
		}
		sum := 0.0
		for k, w := range weights {
			if weights[k] = math.Exp(w - most); math.IsInf(most, -1) {
				weights[k] = 0
			}
			sum += weights[k]
		}
		for v := range a.v {
			y := 0.0
			for k, w := range weights {
				if w != 0 {
					y += w / sum * read(in[2], batch, k, v, a.group)
				}
			}
			out.Set(tensor.FloatScalar(y), append(slices.Clone(index), v)...)
		}
	})
	return []*tensor.Tensor{out}, nil
}
