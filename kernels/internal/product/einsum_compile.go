package product

import (
	"slices"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// einsumPlan builds the kernel of an einsum. A term is an operand or an intermediate product, and a label names one of
// its dimensions. The plan multiplies the terms of the equation as matrices, from left to right. For each product, the
// labels of the rows are merged into one dimension. The labels of the columns, and the labels that are summed, are
// merged in the same way. If the strides of a term do not permit a merge, the term is copied first. Each product and
// each copy adds phases to the kernel. For example, these are the products of "ab,bc,cd->ad":
//
//	first:   rows a, columns c, summed b: an intermediate term ac
//	second:  rows a, columns d, summed c: the result ad
type einsumPlan struct {
	einsum         *einsum
	call           *graph.Call
	dtype          tensor.DType     // dtype of all terms and of the result
	kernel         *graph.Kernel    // the kernel so far
	productScratch int              // scratch memory that the products share, in bytes
	inner          kit.InnerKernels // binds the phases of products to their terms
}

// compileEinsum makes the kernel of an einsum.
func compileEinsum(call *graph.Call) (*graph.Kernel, error) {
	einsum, err := newEinsum(call, call.Meta)
	if err != nil || call.Out[0].Numel() == 0 {
		return &graph.Kernel{}, err
	}
	plan := &einsumPlan{einsum: einsum, call: call, dtype: call.Out[0].DType, kernel: &graph.Kernel{}}
	for i := range einsum.terms {
		term := &einsum.terms[i]
		term.buffer.Meta = term.meta(einsum, plan.dtype)
	}
	if tensor.Numel(einsum.shape(plan.allLabels())) == 0 {
		return copies.Kernel(copies.Job{Dst: kit.OutBuffer(call, 0), Fill: tensor.Zeros(plan.dtype)}), nil
	}
	product := einsum.terms[0]
	for i := 1; i < len(einsum.terms); i++ {
		isLast := i == len(einsum.terms)-1
		if product, err = plan.product(product, einsum.terms[i], plan.keptLabels(i+1), isLast); err != nil {
			return nil, err
		}
	}
	if product, err = plan.sum(product, einsum.resultLabels); err != nil {
		return nil, err
	}
	if product.buffer.IsPtr(0) { // the last product wrote the result, whose address is pointer 0
		return plan.finish(), nil
	}
	out := kit.OutBuffer(call, 0)
	src := product.buffer
	src.Meta = tensor.Meta{DType: plan.dtype, Shape: out.Meta.Shape, Strides: make([]int, len(einsum.resultLabels))}
	for i, label := range einsum.resultLabels {
		src.Meta.Strides[i] = product.stride(label)
	}
	plan.copy(out, src)
	return plan.finish(), nil
}

// finish returns the kernel. Its scratch memory has the intermediate terms, followed by the memory of one product.
func (plan *einsumPlan) finish() *graph.Kernel {
	plan.inner.ScratchOffset = plan.kernel.Scratch
	plan.kernel.Scratch += plan.productScratch
	return plan.kernel
}

// allLabels returns the labels of all terms, with repetitions.
func (plan *einsumPlan) allLabels() []int {
	var all []int
	for _, term := range plan.einsum.terms {
		all = append(all, term.labels...)
	}
	return all
}

// keptLabels returns the labels that must not be summed before term i: the labels of the result and of the terms from i
// on.
func (plan *einsumPlan) keptLabels(i int) []int {
	all := slices.Clone(plan.einsum.resultLabels)
	for _, term := range plan.einsum.terms[i:] {
		all = append(all, term.labels...)
	}
	return all
}

// product multiplies terms a and b. First it sums each term over its labels that are neither in the other term nor in
// keptLabels. isLast is set for the last product.
func (plan *einsumPlan) product(a, b einsumTerm, keptLabels []int, isLast bool) (einsumTerm, error) {
	a, err := plan.sum(a, append(slices.Clone(keptLabels), b.labels...))
	if err != nil {
		return a, err
	}
	if b, err = plan.sum(b, append(slices.Clone(keptLabels), a.labels...)); err != nil {
		return b, err
	}
	return plan.contract(a, b, keptLabels, isLast)
}

// sum sums a term over the labels that are not in keptLabels. It returns the term itself if there are no such labels.
func (plan *einsumPlan) sum(term einsumTerm, keptLabels []int) (einsumTerm, error) {
	if !slices.ContainsFunc(term.labels, func(label int) bool { return !slices.Contains(keptLabels, label) }) {
		return term, nil
	}
	const isLast = false
	one := einsumTerm{buffer: kit.DataBuffer(tensor.IntScalar(1).Tensor(plan.dtype))}
	return plan.contract(term, one, keptLabels, isLast)
}

// contract multiplies two terms and sums over the labels that are not in keptLabels. The last product (isLast) writes
// the result directly if the product has all labels of the result and the strides of the result permit the merges.
func (plan *einsumPlan) contract(a, b einsumTerm, keptLabels []int, isLast bool) (einsumTerm, error) {
	labels := plan.labelsOf(&a, &b, keptLabels)
	a = plan.makeMergeable(a, labels.batch, labels.rows, labels.summed)
	if !b.buffer.IsInKernel() { // otherwise b is the constant 1 of method sum, which has no labels
		b = plan.makeMergeable(b, labels.batch, labels.summed, labels.cols)
	}
	scratchBefore := plan.kernel.Scratch // restored if the scratch memory of newTerm is not needed
	result := plan.newTerm(slices.Concat(labels.batch, labels.rows, labels.cols))
	if isLast && len(result.labels) == len(plan.einsum.resultLabels) {
		out := plan.call.Out[0]
		direct := einsumTerm{labels: plan.einsum.resultLabels, strides: out.Strides, buffer: kit.OutBuffer(plan.call, 0)}
		_, rowsMerge := plan.mergedStride(&direct, labels.rows)
		_, colsMerge := plan.mergedStride(&direct, labels.cols)
		if rowsMerge && colsMerge {
			plan.kernel.Scratch = scratchBefore
			result = direct
		}
	}
	return result, plan.addMatrixProduct(&a, &b, &result, labels)
}

// productLabels has the labels of a product of two terms, by role. In "bij,bjk->bik", b is a batch label, i is a row
// label, k is a column label, and j is summed.
type productLabels struct{ batch, rows, cols, summed []int }

// labelsOf returns the labels of the product of a and b, which sums over the labels that are not in keptLabels. Labels
// of a role are in the order of the result, so that the product can write the result directly.
func (plan *einsumPlan) labelsOf(a, b *einsumTerm, keptLabels []int) (labels productLabels) {
	order := slices.Clone(plan.einsum.resultLabels)
	for _, label := range slices.Concat(a.labels, b.labels) {
		if !slices.Contains(order, label) {
			order = append(order, label)
		}
	}
	for _, label := range order {
		isInA, isInB := slices.Contains(a.labels, label), slices.Contains(b.labels, label)
		switch isKept := slices.Contains(keptLabels, label); {
		case isKept && isInA && isInB:
			labels.batch = append(labels.batch, label)
		case isKept && isInA:
			labels.rows = append(labels.rows, label)
		case isKept && isInB:
			labels.cols = append(labels.cols, label)
		case isInA || isInB:
			labels.summed = append(labels.summed, label)
		}
	}
	return labels
}

// makeMergeable returns a term with the same elements whose labels in rows can be merged into one dimension, and whose
// labels in cols can be merged into another. It returns the term itself if its strides permit both merges, otherwise a
// copy. Each label of the term is in batch, rows or cols.
func (plan *einsumPlan) makeMergeable(term einsumTerm, batch, rows, cols []int) einsumTerm {
	_, rowsMerge := plan.mergedStride(&term, rows)
	_, colsMerge := plan.mergedStride(&term, cols)
	if rowsMerge && colsMerge {
		return term
	}
	out := plan.newTerm(slices.Concat(batch, rows, cols))
	src := term.buffer
	src.Meta = tensor.Meta{DType: plan.dtype, Shape: out.buffer.Meta.Shape, Strides: make([]int, len(out.labels))}
	for i, label := range out.labels {
		src.Meta.Strides[i] = term.stride(label)
	}
	plan.copy(out.buffer, src)
	return out
}

// mergedStride returns the stride of the dimension into which labels are merged, or false if the strides of the term do
// not permit the merge. For example, labels of the sizes 2 and 3 with the strides 12 and 4 merge into stride 4.
func (plan *einsumPlan) mergedStride(term *einsumTerm, labels []int) (int, bool) {
	// The loop begins with the last label. merged is the stride of the last label, and nextStride the stride that the
	// next label must have. Labels of size 1 do not matter.
	merged, nextStride, isFirst := 0, 0, true
	for i := len(labels) - 1; i >= 0; i-- {
		size := plan.einsum.sizes[labels[i]]
		if size == 1 {
			continue
		}
		stride := term.stride(labels[i])
		switch {
		case isFirst:
			merged, isFirst = stride, false
		case stride != nextStride:
			return 0, false
		}
		nextStride = stride * size
	}
	return merged, true
}

// addMatrixProduct adds the phases of a batch of matrix products. It merges the row labels into the dimension m, the
// column labels into n, and the summed labels into k.
func (plan *einsumPlan) addMatrixProduct(a, b, out *einsumTerm, labels productLabels) error {
	size := func(labels []int) int { return tensor.Numel(plan.einsum.shape(labels)) }
	product := &contraction{batch: plan.einsum.shape(labels.batch), aOperand: 0, bOperand: 1, alpha: tensor.IntScalar(1),
		m: size(labels.rows), n: size(labels.cols), k: size(labels.summed)}
	for _, label := range labels.batch {
		product.a.batch = append(product.a.batch, a.stride(label))
		product.b.batch = append(product.b.batch, b.stride(label))
		product.c.batch = append(product.c.batch, out.stride(label))
	}
	product.a.row, _ = plan.mergedStride(a, labels.rows)
	product.a.col, _ = plan.mergedStride(a, labels.summed)
	product.b.row, _ = plan.mergedStride(b, labels.summed)
	product.b.col, _ = plan.mergedStride(b, labels.cols)
	product.c.row, _ = plan.mergedStride(out, labels.rows)
	product.c.col, _ = plan.mergedStride(out, labels.cols)
	// Package gemm requires a nonzero stride of the result even for a single row or column.
	if product.n == 1 {
		product.c.col = 1
	} else if product.m == 1 {
		product.c.row = 1
	}
	arg := func(term *einsumTerm) graph.Arg {
		return graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Meta: term.buffer.Meta}}
	}
	kernel, err := product.compile(&graph.Call{In: []graph.Arg{arg(a), arg(b)}, Out: []tensor.Meta{out.buffer.Meta}})
	if err != nil {
		return err
	}
	plan.productScratch = max(plan.productScratch, kernel.Scratch)
	plan.kernel.WorkerScratch = max(plan.kernel.WorkerScratch, kernel.WorkerScratch)
	plan.kernel.FoldOrder += kernel.FoldOrder + ";"
	for _, phase := range kernel.Phases {
		plan.kernel.Phases = append(plan.kernel.Phases, plan.inner.Phase(phase, []kit.Buffer{out.buffer, a.buffer, b.buffer}))
	}
	return nil
}

// newTerm returns a new row-major term in scratch memory.
func (plan *einsumPlan) newTerm(labels []int) einsumTerm {
	meta := tensor.New(plan.dtype, plan.einsum.shape(labels)...)
	term := einsumTerm{labels: labels, strides: meta.Strides, buffer: kit.ScratchBuffer(plan.kernel.Scratch, meta)}
	plan.kernel.Scratch += kit.AlignUp(meta.Bytes())
	return term
}

// copy adds a phase that copies src to dst.
func (plan *einsumPlan) copy(dst, src kit.Buffer) {
	phase, worker := copies.Phase(copies.Job{Dst: dst, Src: src})
	plan.kernel.Phases = append(plan.kernel.Phases, phase)
	plan.kernel.WorkerScratch = max(plan.kernel.WorkerScratch, worker)
}

// meta returns the dtype, shape and strides of a term of the equation.
func (term *einsumTerm) meta(einsum *einsum, dtype tensor.DType) tensor.Meta {
	return tensor.Meta{DType: dtype, Shape: einsum.shape(term.labels), Strides: term.strides}
}
