package backend

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/compile"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/pricing"
	"github.com/graphrun/graphrun/tensor"
)

// implKey is the key of an op's implementation on a device.
type implKey struct{ d *Device }

// Impl implements graph.Device.
func (d *Device) Impl(op *graph.Op) *graph.Impl {
	impl, _ := op.Derived(implKey{d}, func() any {
		return &graph.Impl{Name: d.Name(), Doc: "Kernels on " + d.Describe() + ".",
			ResultPlace: tensor.Device, OperandPlace: tensor.Device,
			Walks: func(call *graph.Call, candidates []tensor.Order) []graph.Walk {
				return d.walks(op, call, candidates)
			},
			Read: func(call *graph.Call, walk graph.Walk, _ int, meta tensor.Meta) (pricing.Work, bool) {
				return readWork(op, call, walk, meta)
			},
			Work:  func(call *graph.Call, walk graph.Walk) pricing.Work { return d.work(op, denseCall(call, walk)) },
			Lower: func(call *graph.Call) (*graph.Kernel, error) { return d.lower(op, call) },
		}
	}).(*graph.Impl)
	return impl
}

// walks returns a walk (a loop order, and the layouts of the results) for each order of dimensions for which the device
// has kernels. The order of the inferred layout is first. The candidates follow.
func (d *Device) walks(op *graph.Op, call *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
	if len(call.Out) == 0 || op.RunDynamic != nil {
		return nil
	}
	if order, isDense := tensor.OrderOf(call.Out[0]); isDense {
		candidates = append([]tensor.Order{order}, candidates...)
	}
	for i, order := range candidates {
		if order.Rank() != call.Out[0].Rank() || slices.Contains(candidates[:i], order) {
			continue
		}
		walk := call.WalkInOrder(order)
		for output, meta := range call.Out {
			if meta.Rank() != order.Rank() { // the order does not apply: the rank differs from the rank of result 0
				walk.ResultOrders[output] = tensor.RowMajorOrder(meta.Rank())
			}
		}
		// The forms of a call are the expressions from which kernels are compiled. If the forms of one dense layout can be
		// compiled, the forms of other layouts can be compiled, too. Compilation takes longer than FormsOf, so only the first
		// walk is compiled.
		dense := denseCall(call, walk)
		var err error
		if len(list) == 0 {
			_, err = d.program(op, dense)
		} else if forms, formsErr := graph.FormsOf(op, dense); formsErr != nil || len(forms) == 0 {
			err = lower.ErrUnsupported
		}
		if err == nil {
			list = append(list, walk)
		}
	}
	return list
}

// denseCall returns a copy of a call with row-major operands, and with results in the layouts of a walk. The work of a
// call assumes such operands. Impl.Read adds the work of reading operands in other layouts.
func denseCall(call *graph.Call, walk graph.Walk) *graph.Call {
	dense := *call
	dense.In, dense.Out = slices.Clone(call.In), slices.Clone(call.Out)
	for i, arg := range call.In {
		if arg.Kind == graph.TensorArg {
			operandMeta, value := arg.Meta(), arg.Value
			operandMeta = tensor.New(operandMeta.DType, operandMeta.Shape...)
			dense.In[i] = graph.ArgOf(&graph.Value{Name: value.Name, Meta: operandMeta,
				Type: operandMeta.Type(), Const: value.Const})
		}
	}
	for i, meta := range call.Out {
		dense.Out[i] = walk.ResultLayout(i, meta)
	}
	return &dense
}

// program returns the program that computes a call. Its buffers are the results and operands of the call.
func (d *Device) program(op *graph.Op, call *graph.Call) (*lower.Program, error) {
	align := make([]int, 0, len(call.Out)+len(call.In))
	for _, meta := range call.Out {
		align = append(align, alignOf(meta))
	}
	for i := range call.In {
		align = append(align, alignOf(call.Meta(i)))
	}
	return compile.Call(op, call, align, d.info.ExactOps.Target)
}

// alignOf returns the greatest power of 2, at most bufferAlign, that divides the address of a value's first element.
func alignOf(meta tensor.Meta) int {
	bits := meta.Offset*meta.DType.Size() | bufferAlign
	return bits & -bits // the lowest set bit
}

// bufferAlign is the alignment in bytes of all memory of a device.
const bufferAlign = 16

// lower compiles a call to a kernel.
func (d *Device) lower(op *graph.Op, call *graph.Call) (*graph.Kernel, error) {
	program, err := d.program(op, call)
	if err != nil {
		return nil, err
	}
	compiledProgram, err := d.compile(program)
	if err != nil {
		return nil, err
	}
	if program.Fault != "" { // the error of a kernel that finds an invalid operand, such as an index out of range
		compiledProgram.fault = fmt.Errorf("%s: %s", op.Name, program.Fault)
	}
	for _, meta := range call.Out {
		compiledProgram.elemBytes = append(compiledProgram.elemBytes, meta.DType.Size())
	}
	for i := range call.In {
		compiledProgram.elemBytes = append(compiledProgram.elemBytes, call.Meta(i).DType.Size())
	}
	kernel := &graph.Kernel{Place: tensor.Device, Scratch: program.Scratch, InPlace: inPlace(op, call)}
	kernel.Phases = []graph.Phase{{Chunks: 1, Run: func(mem *graph.Mem, _ int) error {
		deviceQueue, ok := mem.Queue.(*queue)
		if !ok { // the queue of another device
			return errOtherMemory
		}
		return deviceQueue.launch(compiledProgram, mem.Addresses, mem.Ptrs)
	}}}
	return kernel, nil
}

// inPlace returns the pairs of a result and an operand that the result may overwrite. There are such pairs only if the
// call is one elementwise expression, because then a thread reads its elements before it writes them.
func inPlace(op *graph.Op, call *graph.Call) (list []graph.InPlace) {
	forms, err := graph.FormsOf(op, call)
	if err != nil || len(forms) != 1 {
		return nil
	}
	elements, ok := forms[0].(*graph.Elements)
	if !ok {
		return nil
	}
	outs := len(elements.Code.Out)
	for _, result := range elements.Operands[:outs] {
		for _, from := range elements.Operands[outs:] {
			// If the result overwrites the operand, elements with the same index must have the same address.
			hasSameLayout := from.Meta.DType.Size() == result.Meta.DType.Size() &&
				from.Meta.SameAddresses(result.Meta) && from.Offset == 0 && result.Offset == 0
			if hasSameLayout {
				list = append(list, graph.InPlace{Out: result.Index, In: from.Index - len(call.Out)})
			}
		}
	}
	return list
}

// transferWalks returns a walk for each candidate order. readsSameLayout requires the operand to have the same order.
func transferWalks(call *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
	for _, order := range candidates {
		list = append(list, call.WalkInOrder(order))
	}
	return list
}

// readsSameLayout accepts an operand only in the layout of the result. Reading it costs no additional work.
func readsSameLayout(call *graph.Call, walk graph.Walk, _ int, meta tensor.Meta) (work pricing.Work, ok bool) {
	return work, len(call.Out) == 1 && walk.ResultLayout(0, call.Out[0]).SameAddresses(meta)
}

// lowerUpload returns the kernel of an upload, from the operand on the host (mem.Ptrs[1]) to the result on the device
// (mem.Addresses[0]).
func lowerUpload(call *graph.Call) (*graph.Kernel, error) {
	bytes, err := transferBytes(call)
	upload := func(mem *graph.Mem, _ int) error {
		return mem.Queue.Upload(mem.Addresses[0], unsafe.Slice((*byte)(mem.Ptrs[1]), bytes))
	}
	return &graph.Kernel{Place: tensor.Device, Phases: []graph.Phase{{Chunks: 1, Run: upload}}}, err
}

// lowerDownload returns the kernel of a download. A [graph.Queue] has uploads but no downloads, so the kernel needs the
// queue of this package.
func lowerDownload(call *graph.Call) (*graph.Kernel, error) {
	bytes, err := transferBytes(call)
	download := func(mem *graph.Mem, _ int) error {
		deviceQueue, ok := mem.Queue.(*queue)
		if !ok {
			return errOtherMemory
		}
		return deviceQueue.download(unsafe.Slice((*byte)(mem.Ptrs[0]), bytes), mem.Addresses[1])
	}
	return &graph.Kernel{Place: tensor.Host, Phases: []graph.Phase{{Chunks: 1, Run: download}}}, err
}

// transferBytes returns the size of a transferred value.
func transferBytes(call *graph.Call) (int, error) {
	from, to := call.Meta(0), call.Out[0]
	if !from.SameAddresses(to) || !to.IsNonOverlappingAndDense() {
		return 0, fmt.Errorf("a transfer from %v to %v: want the same dense layout for both", from, to)
	}
	return to.Bytes(), nil
}
