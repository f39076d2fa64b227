package backend

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/iter/rule"
	"github.com/graphrun/graphrun/tensor"
)

// Impl implements graph.Device.
func (d *Device) Impl(op *graph.Op) *graph.Impl {
	if impl, ok := d.impls.Load(op); ok {
		return impl.(*graph.Impl)
	}
	impl, _ := d.impls.LoadOrStore(op, &graph.Impl{Name: d.Name(), Doc: "A kernel on " + d.Describe() + ".",
		Place: tensor.Device, Source: tensor.Device,
		Walks: func(call *graph.Call, candidates []tensor.Order) []graph.Walk { return d.walks(op, call, candidates) },
		Read:  readWork,
		Work:  func(call *graph.Call, walk graph.Walk) graph.Work { return work(op, call) },
		Lower: func(call *graph.Call) (*graph.Kernel, error) { return d.lower(op, call) },
	})
	return impl.(*graph.Impl)
}

// walks returns the orders of a call's results, the inferred order first, or none if the device has no kernel.
func (d *Device) walks(op *graph.Op, call *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
	if len(call.Out) == 0 || !d.supports(op, call) {
		return nil
	}
	rank := call.Out[0].Rank()
	if order, dense := tensor.OrderOf(call.Out[0]); dense {
		candidates = append([]tensor.Order{order}, candidates...)
	}
	for i, order := range candidates {
		if order.Rank() == rank && !slices.Contains(candidates[:i], order) {
			list = append(list, call.InOrder(order))
		}
	}
	return list
}

// supports reports whether the device has a kernel for a call. Layouts do not matter.
func (d *Device) supports(op *graph.Op, call *graph.Call) bool {
	code, _, err := expression(op, call)
	if err != nil {
		return false
	}
	key := code.Key()
	if known, ok := d.codes.Load(key); ok {
		return known.(bool)
	}
	_, err = d.launches(op, call)
	d.codes.Store(key, err == nil)
	return err == nil
}

var errNoExpression = errors.New("has no expression of one element")

// expression returns the expression of one element of a call, and the operands that it loads.
func expression(op *graph.Op, call *graph.Call) (*expr.Code, []int, error) {
	var code *expr.Code
	f, fused := call.Attrs.(*fusion.Fusion)
	switch {
	case fused && f.Mask == nil && f.Anchor == 0 && f.ViewShapes == nil:
		code = f.Code()
	case fused || op.RunDynamic != nil || op.Kind == graph.View:
	case op.Expression != nil:
		var err error
		if code, err = op.Expression(call); err != nil {
			return nil, nil, err
		}
	case op.Copies:
		d := call.Type(0).DType
		b := expr.NewBuilder(d)
		element := expr.Output{DType: d, Re: b.Load(0), Im: expr.None}
		if d.IsComplex() {
			element.Im = b.LoadImag(0)
		}
		var err error
		if code, err = b.Build(element); err != nil {
			return nil, nil, err
		}
	}
	if code == nil || code.Reduces() || len(code.In) != len(call.In) {
		return nil, nil, errNoExpression
	}
	var dtypes []tensor.DType
	var operands []int
	for i, a := range call.In {
		switch a.Kind {
		case graph.Null:
			return nil, nil, errNoExpression
		case graph.TensorArg:
			dtypes, operands = append(dtypes, code.In[i]), append(operands, i)
		}
	}
	if len(operands) == len(call.In) {
		return code, operands, nil
	}
	b := expr.NewBuilder(dtypes...)
	code, err := b.Build(b.Inline(code, func(operand, part int) expr.Value {
		k := slices.Index(operands, operand)
		switch {
		case k < 0:
			return b.Number(code.In[operand], call.In[operand].Number, part)
		case part == 0:
			return b.Load(k)
		}
		return b.LoadImag(k)
	})...)
	return code, operands, err
}

// launches returns the launches of a call. Their parameters are the results and the operands that are tensors.
func (d *Device) launches(op *graph.Op, call *graph.Call) ([]lower.Launch, error) {
	code, operands, err := expression(op, call)
	if err != nil {
		return nil, err
	}
	cfg := rule.New().CheckAllSameDType(false).ResizeOutputs(false)
	var align []int
	alignOf := func(meta tensor.Meta) int {
		a := meta.Offset*meta.DType.Size() | bufferAlign
		return a & -a
	}
	for _, meta := range call.Out {
		cfg, align = cfg.Output(rule.OfMeta(meta)), append(align, alignOf(meta))
	}
	for _, i := range operands {
		meta := call.Meta(i)
		cfg, align = cfg.Input(rule.OfMeta(meta)), append(align, alignOf(meta))
	}
	it, err := iter.Build(cfg)
	if err != nil {
		return nil, err
	}
	p, err := lower.Pointwise(code, it, align, d.info.Promise.Target)
	if err != nil {
		return nil, err
	}
	return p.Launches, nil
}

// bufferAlign is the alignment that all memory of a device has.
const bufferAlign = 16

// lower makes the kernel of a call.
func (d *Device) lower(op *graph.Op, call *graph.Call) (*graph.Kernel, error) {
	launches, err := d.launches(op, call)
	if err != nil {
		return nil, err
	}
	compiled, err := d.compile(launches)
	if err != nil {
		return nil, err
	}
	kernel := &graph.Kernel{Place: tensor.Device}
	var params []int // indices in Mem.Ptrs
	var sizes []int
	for o, out := range call.Out {
		params, sizes = append(params, o), append(sizes, out.DType.Size())
		for i, a := range call.In {
			if a.Kind != graph.TensorArg {
				continue
			}
			if meta := a.Meta(); meta.DType.Size() == out.DType.Size() && meta.SameAddresses(out) {
				kernel.InPlace = append(kernel.InPlace, graph.InPlace{Out: o, In: i})
			}
		}
	}
	for i, a := range call.In {
		if a.Kind == graph.TensorArg {
			params, sizes = append(params, len(call.Out)+i), append(sizes, a.Meta().DType.Size())
		}
	}
	kernel.Phases = []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		q, ok := m.Queue.(*queue)
		if !ok {
			return errOtherMemory
		}
		addresses, host := make([]graph.DeviceAddress, len(params)), make([]unsafe.Pointer, len(params))
		for k, p := range params {
			addresses[k], host[k] = m.Addresses[p], m.Ptrs[p]
		}
		return q.launch(compiled, addresses, host, sizes)
	}}}
	return kernel, nil
}

// transferWalks returns the walk that keeps the layout of the operand.
func transferWalks(call *graph.Call, candidates []tensor.Order) (list []graph.Walk) {
	for _, order := range candidates {
		list = append(list, call.InOrder(order))
	}
	return list
}

// readsSameLayout accepts the layout that the result has.
func readsSameLayout(call *graph.Call, walk graph.Walk, _ int, meta tensor.Meta) (work graph.Work, ok bool) {
	return work, len(call.Out) == 1 && walk.ResultLayout(0, call.Out[0]).SameAddresses(meta)
}

// lowerUpload makes the kernel of an upload.
func lowerUpload(call *graph.Call) (*graph.Kernel, error) {
	bytes, err := transferBytes(call)
	return &graph.Kernel{Place: tensor.Device, Phases: []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		return m.Queue.Upload(m.Addresses[0], unsafe.Slice((*byte)(m.Ptrs[1]), bytes))
	}}}}, err
}

// lowerDownload makes the kernel of a download.
func lowerDownload(call *graph.Call) (*graph.Kernel, error) {
	bytes, err := transferBytes(call)
	return &graph.Kernel{Place: tensor.Host, Phases: []graph.Phase{{Chunks: 1, Run: func(m *graph.Mem, _ int) error {
		q, ok := m.Queue.(*queue)
		if !ok {
			return errOtherMemory
		}
		return q.download(unsafe.Slice((*byte)(m.Ptrs[0]), bytes), m.Addresses[1])
	}}}}, err
}

// transferBytes returns the size of a transferred value.
func transferBytes(call *graph.Call) (int, error) {
	from, to := call.Meta(0), call.Out[0]
	if !from.SameAddresses(to) || !to.IsNonOverlappingAndDense() {
		return 0, fmt.Errorf("a transfer from %v to %v: both must have the same dense layout", from, to)
	}
	return to.Bytes(), nil
}
