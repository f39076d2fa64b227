package iter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/strided"
	"github.com/graphrun/graphrun/tensor"
)

// CopyInto writes the values of src into dst, whose layout does not change (Tensor.copy_). src is broadcast to the
// shape of dst and converted to the dtype of dst by the rules of c10::convert. CopyInto copies tile by tile, so that
// transposed copies use whole cache lines. It uses at most the given number of worker goroutines; 0 means all cores.
// ctx can cancel the copy between two tasks, and may be nil.
//
// If dst is src, or a view of the same storage with equal dtype, sizes, strides and offset, CopyInto does nothing and
// checks nothing. Otherwise dst must not overlap itself, and must not partially overlap src ([OverlapOf]). The errors
// are PyTorch's.
func CopyInto(ctx context.Context, dst, src *tensor.Tensor, workers int) error {
	switch {
	case dst == nil || src == nil:
		return errors.New("iter: copy: a tensor is nil")
	case dst == src || sameData(dst, src):
		return nil
	}
	it, err := Copy(OperandOfTensor(dst), OperandOfTensor(src)).Build()
	if err != nil {
		return err
	}
	if it.numel == 0 {
		return nil
	}
	axes := make([]strided.Axis, len(it.walkShape)) // operand 0 is dst, and operand 1 is src
	for d, n := range it.walkShape {
		axes[d] = strided.Axis{N: n, Dst: it.walkStrides[2*d], Src: it.walkStrides[2*d+1]}
	}
	plan := strided.New(conversion(dst.DType, src.DType), axes)
	to, from := dst.Pointer(), src.Pointer()
	tilesPerTask := max(1, GrainSize/plan.MaxTileElems())
	return forTasks(ctx, (plan.Tiles()-1)/tilesPerTask+1, workers, func(c *Cursor, task int) error {
		if len(c.blockMemory) < plan.ScratchBytes() {
			c.blockMemory = tensor.NewStorage(plan.ScratchBytes()).Bytes()
		}
		plan.Run(to, from, c.blockMemory, task*tilesPerTask, min((task+1)*tilesPerTask, plan.Tiles()))
		return nil
	})
}

// sameData reports whether a copy is unnecessary, like is_same_data of at::native::copy_: both tensors have the same
// elements at the same addresses. The strides of dimensions of size 1 must be equal, too. PyTorch 2 makes this check
// before the check of overlap; PyTorch 1.13 has no such check.
func sameData(dst, src *tensor.Tensor) bool {
	return dst.Storage() != nil && dst.Storage() == src.Storage() && dst.Offset == src.Offset && dst.DType == src.DType &&
		dst.SameLayout(src.Meta)
}

// shortCopy is the largest number of elements for which a copy runs on one worker and ignores the context.
const shortCopy = 1 << 18

// CopyElements writes the values of src into dst, like [tensor.CopyElements]. The shapes must be equal. If several
// elements of dst share an address, the last value remains. At most the given number of worker goroutines share a long
// copy; 0 means all cores. ctx can cancel the copy, and may be nil. dst and src must not overlap partially.
func CopyElements(ctx context.Context, dst, src *tensor.Tensor, workers int) error {
	switch {
	case dst == nil || src == nil:
		return errors.New("iter: copy: a tensor is nil")
	case !slices.Equal(dst.Shape, src.Shape):
		return fmt.Errorf("iter: values of shape %s cannot be copied to shape %s", tensor.ListString(src.Shape),
			tensor.ListString(dst.Shape))
	}
	if err := interrupt.Err(ctx); err != nil {
		return err
	}
	switch {
	case dst.Numel() <= shortCopy:
		tensor.CopyElements(dst, src)
		return nil
	case !dst.OverlapsItself():
		return CopyInto(ctx, dst, src, workers)
	}
	// Several elements of dst share an address: slices are copied in order, so that the last value remains.
	for i := range dst.Shape[0] {
		to, err := sliceAt(dst, i)
		if err != nil {
			return err
		}
		from, err := sliceAt(src, i)
		if err != nil {
			return err
		}
		if err := CopyElements(ctx, to, from, workers); err != nil {
			return err
		}
	}
	return nil
}

// sliceAt returns slice i along the first dimension.
func sliceAt(t *tensor.Tensor, i int) (*tensor.Tensor, error) {
	meta, err := t.Select(0, i)
	if err != nil {
		return nil, err
	}
	return t.View(meta)
}
