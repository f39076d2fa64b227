package multiply

import (
	"context"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/copies"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// densePacking packs an operand as a dense copy in the dtype of the computation.
func densePacking(meta tensor.Meta, dtype tensor.DType) graph.Packing {
	dense := copies.DenseAs(meta, dtype)
	// The packed operand is a vector; asDense views it with the shape of the operand.
	asDense := func(packed *tensor.Tensor) *tensor.Tensor {
		return tensor.Must(tensor.FromStorage(dense, packed.Storage()))
	}
	return graph.Packing{Format: denseFormat(dtype), DType: dtype, Len: dense.Numel(),
		Fill:   func(ctx context.Context, dst, src *tensor.Tensor) { kit.CopyInto(ctx, asDense(dst), src) },
		Unpack: func(dst, packed *tensor.Tensor) { tensor.CopyElements(dst, asDense(packed)) }}
}

// denseFormat returns the name of the packed form of densePacking.
func denseFormat(dtype tensor.DType) string { return dtype.String() }

// PackFunc returns the Pack function of an implementation whose kernel uses [copies.CompileInDType]. pack returns the
// packing of an operand in the dtype of the computation, or false if the kernel does not pack the operand. pack may be
// nil. An operand that pack does not pack is packed as a copy in the dtype of the computation, unless it already has
// this dtype.
func PackFunc(pack func(c *graph.Call, i int) (graph.Packing, bool)) func(*graph.Call, int) (graph.Packing, bool) {
	return func(c *graph.Call, i int) (graph.Packing, bool) {
		dtype, meta := ComputationDType(c), c.Meta(i)
		if c.Out[0].Numel() == 0 || meta.Numel() == 0 {
			return graph.Packing{}, false
		}
		if pack != nil {
			if packing, ok := pack(copies.InDType(c, dtype), i); ok {
				return packing, true
			}
		}
		if meta.DType == dtype {
			return graph.Packing{}, false
		}
		return densePacking(meta, dtype), true
	}
}

// ComputationDType returns the dtype in which products compute a result.
func ComputationDType(c *graph.Call) tensor.DType { return computationDType(c.Out[0].DType) }

// computationDType returns the dtype in which products compute a result of this dtype. Bools are multiplied as uint8.
func computationDType(dtype tensor.DType) tensor.DType {
	if dtype = dtype.OpMath(); dtype != tensor.Bool {
		return dtype
	}
	return tensor.Uint8
}
