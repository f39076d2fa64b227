package multiply

import (
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/loops"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/tensor"
)

// Requantizer converts rows of int32 sums to bytes, with one scale for each column. With AVX-512, machine code keeps
// the scales in registers. Otherwise the loop of a [SumConversion] is used.
type Requantizer struct {
	dtype   tensor.DType // dtype of the results
	code    *jit.Func    // machine code, or nil
	loop    *loops.Loop  // the loop that is used without machine code, else nil
	workers graph.PerWorker[requantizerRun]
}

// requantizerRun is the state of a worker that runs a Requantizer.
type requantizerRun struct {
	args      jit.Args
	state     loops.State
	zeroPoint int32
}

// NewRequantizer generates code for results of a byte dtype.
func NewRequantizer(dtype tensor.DType) (*Requantizer, error) {
	r := &Requantizer{dtype: dtype}
	var err error
	if jit.Available() == nil && machine.HostFeatures().Has(machine.Vector512) {
		r.code, err = requantize.Compile(dtype == tensor.Int8, machine.HostFeatures())
		return r, err
	}
	r.loop, err = SumConversion{IsScaled: true, DType: dtype}.Loop()
	return r, err
}

// ConvertRows converts rows of sums to bytes: `rows` rows of `columns` sums. outStride and sumsStride are the
// strides of rows of results and of sums, in bytes. zeroPoint is the address of the zero point, a single element in the
// dtype of the results.
func (r *Requantizer) ConvertRows(m *graph.Mem, out, sums, scales, zeroPoint unsafe.Pointer, outStride, sumsStride,
	columns, rows int) error {
	worker := r.workers.Get(m)
	if r.loop != nil {
		r.loop.Run(&worker.state, []unsafe.Pointer{out, sums, scales, zeroPoint}, []int{outStride, sumsStride, 0, 0},
			columns, rows)
		worker.state.Release()
		return nil
	}
	worker.zeroPoint = int32(*(*uint8)(zeroPoint))
	if r.dtype == tensor.Int8 {
		worker.zeroPoint = int32(*(*int8)(zeroPoint))
	}
	args := &worker.args
	defer clear(args.Ptr[:])
	args.Ptr[requantize.ZeroPoint] = unsafe.Pointer(&worker.zeroPoint)
	args.Step[requantize.NextOut], args.Step[requantize.NextSums] = outStride, sumsStride
	for first := 0; first < columns; first += requantize.Columns {
		// One bit for each of the remaining columns, up to requantize.Columns.
		args.Step[requantize.ColumnMask] = int(^uint64(0) >> max(0, requantize.Columns-(columns-first)))
		args.Ptr[requantize.Scales] = kit.AddressOf[float32](scales, first)
		for row := 0; row < rows; row += requantize.CallRows {
			args.Rows = min(rows-row, requantize.CallRows)
			args.Ptr[requantize.Out] = kit.AddressOf[uint8](out, row*outStride+first)
			args.Ptr[requantize.Sums] = kit.AddressOf[uint8](sums, row*sumsStride+4*first)
			if err := r.code.Call(args); err != nil {
				return err
			}
		}
	}
	return nil
}

// Listing returns the assembly of the machine code, or the listing of the loop.
func (r *Requantizer) Listing() expr.Listing {
	if r.loop != nil {
		return r.loop.Listing("quantize")
	}
	return expr.Listing{Name: "quantize", Assembly: r.code.Listing}
}
