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

// Requantizer scales rows of sums to bytes, with a scale for each column and without the corrections of [Finish]: in
// machine code that keeps the scales in registers, or by the loop of Finish.
type Requantizer struct {
	d    tensor.DType
	code *jit.Func
	loop *loops.Loop
	run  graph.PerWorker[requantizerRun]
}

type requantizerRun struct {
	args  jit.Args
	state loops.State
	point int32
}

// NewRequantizer generates code for results of a byte dtype.
func NewRequantizer(d tensor.DType) (*Requantizer, error) {
	r := &Requantizer{d: d}
	var err error
	if jit.Available() == nil && machine.Instructions() == machine.AVX512 {
		r.code, err = requantize.Compile(d == tensor.Int8, machine.Instructions())
		return r, err
	}
	r.loop, err = Finish{Scaled: true, D: d}.Loop()
	return r, err
}

// Rows converts rows of sums to bytes. pitch and sumsPitch are the bytes between rows of results and of sums; zero is
// the zero point.
func (r *Requantizer) Rows(m *graph.Mem, out, sums, scales, zero unsafe.Pointer, pitch, sumsPitch, columns,
	rows int) error {
	w := r.run.Of(m)
	if r.loop != nil {
		r.loop.Run(&w.state, []unsafe.Pointer{out, sums, scales, zero}, []int{pitch, sumsPitch, 0, 0}, columns, rows)
		w.state.Release()
		return nil
	}
	w.point = int32(*(*uint8)(zero))
	if r.d == tensor.Int8 {
		w.point = int32(*(*int8)(zero))
	}
	a := &w.args
	defer clear(a.Ptr[:])
	a.Ptr[requantize.Point] = unsafe.Pointer(&w.point)
	a.Step[requantize.NextOut], a.Step[requantize.NextSums] = pitch, sumsPitch
	for first := 0; first < columns; first += requantize.Columns {
		a.Step[requantize.Present] = int(^uint64(0) >> max(0, requantize.Columns-(columns-first)))
		a.Ptr[requantize.Scales] = kit.Elem[float32](scales, first)
		for row := 0; row < rows; row += requantize.CallRows {
			a.Rows = min(rows-row, requantize.CallRows)
			a.Ptr[requantize.Out] = kit.Elem[uint8](out, row*pitch+first)
			a.Ptr[requantize.Sums] = kit.Elem[uint8](sums, row*sumsPitch+4*first)
			if err := r.code.Call(a); err != nil {
				return err
			}
		}
	}
	return nil
}

// Listing returns the listing of the code.
func (r *Requantizer) Listing() expr.Listing {
	if r.loop != nil {
		return r.loop.Listing("quantize")
	}
	return expr.Listing{Name: "quantize", Assembly: r.code.Listing()}
}
