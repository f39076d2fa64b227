package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// einsumPlan builds the kernel of an einsum. It multiplies the terms of the equation as matrices, from left to right. A
// copy makes dimensions adjacent in memory if they must be merged for a product.
type einsumPlan struct {
	einsum         *einsum
	call           *graph.Call
	dtype          tensor.DType
	kernel         *graph.Kernel
	productScratch int // scratch memory of the product that needs the most, in bytes
	inner          kit.InnerKernels
}

// compileEinsum makes the kernel of an einsum.
func compileEinsum(c *graph.Call) (*graph.Kernel, error) {
	e, err := newEinsum(c)
	if err != nil || c.Out[0].Numel() == 0 {
		return &graph.Kernel{}, err
	}
	p := &einsumPlan{einsum: e, call: c, dtype: c.Out[0].DType, kernel: &graph.Kernel{}}
	for i := range e.terms {
		t := &e.terms[i]
		t.buffer.Meta = t.meta(e, p.dtype)
	}
	if tensor.Numel(e.shape(p.allLabels())) == 0 {
		return copies.Kernel(copies.Job{Dst: kit.OutBuffer(c, 0), Fill: tensor.Zeros(p.dtype)}), nil
	}
	cur := e.terms[0]
	for i := 1; i < len(e.terms); i++ {
		if cur, err = p.product(cur, e.terms[i], p.keptLabels(i+1), i == len(e.terms)-1); err != nil {
			return nil, err
		}
	}
	if cur, err = p.sum(cur, e.out); err != nil {
		return nil, err
	}
	if cur.buffer.IsPtr(0) {
		return p.finish(), nil
	}
	out := kit.OutBuffer(c, 0)
	src := cur.buffer
	src.Meta = tensor.Meta{DType: p.dtype, Shape: out.Meta.Shape, Strides: make([]int, len(e.out))}
	for i, l := range e.out {
		src.Meta.Strides[i] = cur.stride(l)
	}
	p.copy(out, src)
	return p.finish(), nil
}

// finish returns the kernel. Its scratch memory has the intermediate terms, followed by the memory of one product.
func (p *einsumPlan) finish() *graph.Kernel {
	p.inner.Scratch = p.kernel.Scratch
	p.kernel.Scratch += p.productScratch
	return p.kernel
}

// allLabels returns the labels of all terms, with repetitions.
func (p *einsumPlan) allLabels() []int {
	var all []int
	for _, t := range p.einsum.terms {
		all = append(all, t.labels...)
	}
	return all
}

// keptLabels returns the labels that must not be summed before term i: the labels of the result and of the terms from i
// on.
func (p *einsumPlan) keptLabels(i int) []int {
	all := slices.Clone(p.einsum.out)
	for _, t := range p.einsum.terms[i:] {
		all = append(all, t.labels...)
	}
	return all
}

// copy adds a phase that copies src to dst.
func (p *einsumPlan) copy(dst, src kit.Buffer) {
	ph, worker := copies.Phase(copies.Job{Dst: dst, Src: src})
	p.kernel.Phases, p.kernel.Worker = append(p.kernel.Phases, ph), max(p.kernel.Worker, worker)
}

// newTerm returns a new row-major term in scratch memory.
func (p *einsumPlan) newTerm(labels []int) einsumTerm {
	m := tensor.New(p.dtype, p.einsum.shape(labels)...)
	t := einsumTerm{labels: labels, strides: m.Strides, buffer: kit.ScratchBuffer(p.kernel.Scratch, m)}
	p.kernel.Scratch += kit.AlignUp(m.Bytes())
	return t
}

// sum sums a term over the labels that are not kept.
func (p *einsumPlan) sum(t einsumTerm, kept []int) (einsumTerm, error) {
	if !slices.ContainsFunc(t.labels, func(l int) bool { return !slices.Contains(kept, l) }) {
		return t, nil
	}
	one := einsumTerm{buffer: kit.DataBuffer(tensor.IntScalar(1).Tensor(p.dtype))}
	return p.contract(t, one, kept, false)
}

// product multiplies terms a and b. First it sums each term over its labels that are neither in the other term nor in
// kept. last is set for the last product.
func (p *einsumPlan) product(a, b einsumTerm, kept []int, last bool) (einsumTerm, error) {
	a, err := p.sum(a, append(slices.Clone(kept), b.labels...))
	if err != nil {
		return a, err
	}
	if b, err = p.sum(b, append(slices.Clone(kept), a.labels...)); err != nil {
		return b, err
	}
	return p.contract(a, b, kept, last)
}

// mergedStride returns the stride of the dimension into which labels are merged, or false if the strides of the term do
// not permit the merge.
func (p *einsumPlan) mergedStride(t *einsumTerm, labels []int) (int, bool) {
	step, span, started := 0, 0, false // span is the stride that the next label must have
	for i := len(labels) - 1; i >= 0; i-- {
		n := p.einsum.sizes[labels[i]]
		if n == 1 {
			continue
		}
		s := t.stride(labels[i])
		switch {
		case !started:
			step, started = s, true
		case s != span:
			return 0, false
		}
		span = s * n
	}
	return step, true
}

// makeMergeable returns a term with the elements of t, in which the labels in rows can be merged into one dimension,
// and the labels in cols into another dimension. It returns t itself if the strides of t permit both merges, otherwise
// a copy. Each label of t is in batch, rows or cols.
func (p *einsumPlan) makeMergeable(t einsumTerm, batch, rows, cols []int) einsumTerm {
	_, okRows := p.mergedStride(&t, rows)
	_, okCols := p.mergedStride(&t, cols)
	if okRows && okCols {
		return t
	}
	out := p.newTerm(slices.Concat(batch, rows, cols))
	src := t.buffer
	src.Meta = tensor.Meta{DType: p.dtype, Shape: out.buffer.Meta.Shape, Strides: make([]int, len(out.labels))}
	for i, l := range out.labels {
		src.Meta.Strides[i] = t.stride(l)
	}
	p.copy(out.buffer, src)
	return out
}

// contract multiplies two terms and sums over common labels that are not kept. The last product writes the output
// directly if its dimensions permit.
func (p *einsumPlan) contract(a, b einsumTerm, kept []int, last bool) (einsumTerm, error) {
	var batch, rows, cols, inner []int
	order := slices.Clone(p.einsum.out)
	for _, l := range slices.Concat(a.labels, b.labels) {
		if !slices.Contains(order, l) {
			order = append(order, l)
		}
	}
	for _, l := range order {
		inA, inB := slices.Contains(a.labels, l), slices.Contains(b.labels, l)
		switch keep := slices.Contains(kept, l); {
		case keep && inA && inB:
			batch = append(batch, l)
		case keep && inA:
			rows = append(rows, l)
		case keep && inB:
			cols = append(cols, l)
		case inA || inB:
			inner = append(inner, l)
		}
	}
	a = p.makeMergeable(a, batch, rows, inner)
	if !b.buffer.IsData() {
		b = p.makeMergeable(b, batch, inner, cols)
	}
	before := p.kernel.Scratch
	to := p.newTerm(slices.Concat(batch, rows, cols))
	if last && len(to.labels) == len(p.einsum.out) {
		o := p.call.Out[0]
		direct := einsumTerm{labels: p.einsum.out, strides: o.Strides, buffer: kit.OutBuffer(p.call, 0)}
		_, okRows := p.mergedStride(&direct, rows)
		_, okCols := p.mergedStride(&direct, cols)
		if okRows && okCols {
			p.kernel.Scratch = before
			to = direct
		}
	}
	return to, p.gemm(&a, &b, &to, batch, rows, cols, inner)
}

// gemm adds the phases of a batch of matrix products.
func (p *einsumPlan) gemm(a, b, to *einsumTerm, batch, rows, cols, inner []int) error {
	x := &contraction{batch: p.einsum.shape(batch), aOperand: 0, bOperand: 1, alpha: tensor.IntScalar(1),
		m: tensor.Numel(p.einsum.shape(rows)), n: tensor.Numel(p.einsum.shape(cols)),
		k: tensor.Numel(p.einsum.shape(inner))}
	for _, l := range batch {
		x.a.batch, x.b.batch, x.c.batch = append(x.a.batch, a.stride(l)), append(x.b.batch, b.stride(l)),
			append(x.c.batch, to.stride(l))
	}
	x.a.row, _ = p.mergedStride(a, rows)
	x.a.col, _ = p.mergedStride(a, inner)
	x.b.row, _ = p.mergedStride(b, inner)
	x.b.col, _ = p.mergedStride(b, cols)
	x.c.row, _ = p.mergedStride(to, rows)
	x.c.col, _ = p.mergedStride(to, cols)
	// gemm requires a nonzero stride of the result even for a single row or column.
	if x.n == 1 {
		x.c.col = 1
	} else if x.m == 1 {
		x.c.row = 1
	}
	arg := func(t *einsumTerm) graph.Arg {
		return graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: t.buffer.Meta}}
	}
	k, err := x.compile(&graph.Call{In: []graph.Arg{arg(a), arg(b)}, Out: []tensor.Meta{to.buffer.Meta}})
	if err != nil {
		return err
	}
	p.productScratch = max(p.productScratch, k.Scratch)
	p.kernel.Worker = max(p.kernel.Worker, k.Worker)
	for _, ph := range k.Phases {
		p.kernel.Phases = append(p.kernel.Phases, p.inner.Phase(ph, []kit.Buffer{to.buffer, a.buffer, b.buffer}))
	}
	return nil
}

// meta returns the meta of a term whose elements have dtype d.
func (t *einsumTerm) meta(e *einsum, d tensor.DType) tensor.Meta {
	return tensor.Meta{DType: d, Shape: e.shape(t.labels), Strides: t.strides}
}
