package tensor

import (
	"math"
	"unsafe"
)

// Stats returns the minimum, maximum and mean of the values, or of the real parts of complex values. All three are NaN
// if a value is NaN, or if there are no elements. If many elements of t share memory, the time depends on the size of
// this memory, not on the number of elements.
func (t *Tensor) Stats() (least, most, mean float64) {
	t.mustCheck()
	if t.Numel() == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	t = t.unexpanded() // repetitions change neither the extremes nor the mean
	count, sum := t.Numel(), 0.0
	least, most = math.Inf(1), math.Inf(-1)
	addresses := t.Extent() - t.Offset // Extent is the offset after the last element
	if count > 4*addresses {           // more than four elements per address on average
		return t.statsByAddress()
	}
	t.eachFloat64Block(func(block []float64) {
		for _, value := range block {
			least, most = min(least, value), max(most, value)
			sum += value
		}
	})
	return least, most, sum / float64(count)
}

// unexpanded returns a view of t without its dimensions of stride 0.
func (t *Tensor) unexpanded() *Tensor {
	view := Meta{DType: t.DType, Offset: t.Offset}
	for d, stride := range t.Strides {
		if stride != 0 {
			view.Shape, view.Strides = append(view.Shape, t.Shape[d]), append(view.Strides, stride)
		}
	}
	return &Tensor{Meta: view, storage: t.storage}
}

// statsByAddress is [Tensor.Stats] for a tensor with many elements at each address: it reads each address once, and
// weighs its value by the number of elements.
func (t *Tensor) statsByAddress() (least, most, mean float64) {
	least, most = math.Inf(1), math.Inf(-1)
	counts, position, sum := t.multiplicities(), 0, 0.0
	t.storageRow().eachFloat64Block(func(block []float64) {
		for _, value := range block {
			if weight := counts[position]; weight > 0 {
				least, most = min(least, value), max(most, value)
				sum += float64(weight * value)
			}
			position++
		}
	})
	return least, most, sum / float64(t.Numel())
}

// multiplicities returns, for each element of [Tensor.storageRow], the number of elements of t at its address. For the
// shape (3,2) and the strides (1,1), for example, it returns 1, 2, 2, 1.
func (t *Tensor) multiplicities() []float64 {
	n := t.Extent() - t.Offset
	// Before the iteration of a dimension, counts covers the elements whose indices in this dimension and in all later
	// dimensions are 0.
	counts := make([]float64, n)
	counts[0] = 1
	for dim, stride := range t.Strides {
		// sums has the counts for the dimensions 0 to dim: sums[p] is counts[p] + counts[p-stride] + ..., with Shape[dim]
		// terms. It is computed from sums[p-stride].
		sums := make([]float64, n)
		for position := range sums {
			sums[position] = counts[position]
			if position >= stride {
				sums[position] += sums[position-stride]
			}
			if window := t.Shape[dim] * stride; window <= position {
				sums[position] -= counts[position-window]
			}
		}
		counts = sums
	}
	return counts
}

// storageRow returns a 1-dim view of the storage from the first to the last element of t. Strides of t must be
// positive.
func (t *Tensor) storageRow() *Tensor {
	row := New(t.DType, t.Extent()-t.Offset)
	row.Offset = t.Offset
	return &Tensor{Meta: row, storage: t.storage}
}

// eachFloat64Block calls f with blocks of consecutive elements in logical order, converted to float64. A float64 copy
// of the whole tensor would take up to eight times the memory of t.
func (t *Tensor) eachFloat64Block(f func(block []float64)) {
	var block [1024]float64
	meta := t.Meta
	if meta.IsContiguous() {
		meta.Shape, meta.Strides = []int{meta.Numel()}, []int{1}
	}
	convert, size, last := Converter(Float64, t.DType), t.DType.Size(), len(meta.Shape)-1
	n, stride := meta.Shape[last], meta.Strides[last]
	p := t.Pointer()
	Meta{DType: meta.DType, Shape: meta.Shape[:last], Strides: meta.Strides[:last]}.Walk(func(offset int) {
		for i := 0; i < n; i += len(block) {
			b := block[:min(len(block), n-i)]
			convert(unsafe.Pointer(&b[0]), unsafe.Add(p, (offset+i*stride)*size), Float64.Size(), stride*size, len(b))
			f(b)
		}
	})
}
