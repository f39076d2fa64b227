package rowprog_test

import (
	"fmt"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/rowprog"
	"github.com/graphrun/graphrun/tensor"
)

// Columns divided by their sums: the first pass computes the sums, the second one the quotients.
func ExampleNew() {
	b := expr.NewBuilder(tensor.Float32)
	x := b.Load(0)
	code, _ := b.Build(b.Real(b.Emit(expr.Div, x, b.Reduce(expr.Add, x))))

	in := tensor.Must(tensor.FromSlice([]float32{1, 2, 3, 6}, 2, 2))
	out := tensor.Empty(in.Meta)
	plan, err := rowprog.New(code, []tensor.Meta{out.Meta}, []tensor.Meta{in.Meta}, []bool{true, false},
		rowprog.AnyDirection)
	if err != nil {
		fmt.Println(err)
		return
	}
	worker, scratch := tensor.NewStorage(plan.WorkerScratch()).Bytes(), tensor.NewStorage(plan.Scratch()).Bytes()
	var s rowprog.State
	for phase := range plan.Phases() {
		for chunk := range plan.Chunks(phase) {
			err = plan.Run(&s, phase, chunk, []unsafe.Pointer{out.Pointer(), in.Pointer()}, scratch, worker)
			if err != nil {
				fmt.Println(err)
			}
		}
	}
	fmt.Println(len(plan.Program().Passes), unsafe.Slice((*float32)(out.Pointer()), 4))
	// Output: 2 [0.25 0.25 0.75 0.75]
}
